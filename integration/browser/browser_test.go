// Package browser looks at weir's pages with Chromium. It is a module of its own, so that what it takes to drive a
// browser is no dependency of weir.
package browser

import (
	"context"
	_ "embed" // look.js
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	shots = flag.String("shots", "", "write a picture of each page into this `DIR`")
	of    = flag.String("of", "", "look at the pages in this `DIR`, and not at made-up ones")
)

const (
	maxPage     = 500_000 // bytes of a page of 24 hours and 16 metrics
	minContrast = 4.5
	waitFor     = 2 * time.Minute
)

// look is a way in which somebody may see a page.
type look struct {
	name   string
	width  int64
	scheme string
	media  string
	tables bool // opened
}

var looks = []look{
	{"light-1280", 1280, "light", "screen", false},
	{"dark-1280", 1280, "dark", "screen", false},
	{"light-360", 360, "light", "screen", false},
	{"dark-360", 360, "dark", "screen", false},
	{"tables-360", 360, "light", "screen", true},
	{"print", 703, "dark", "print", false}, // A4 between its margins, by somebody who prefers dark pages
}

// TestPages looks at every page in every way.
func TestPages(t *testing.T) {
	browser := start(t)
	for _, file := range files(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".html")
		for _, l := range looks {
			t.Run(name+"/"+l.name, func(t *testing.T) {
				tab := open(t, browser)
				requests := listen(t, tab)
				visit(t, tab, file, l)
				for _, url := range requests() {
					if url != "file://"+file {
						t.Errorf("the page asks for %.200s", url)
					}
				}
				s := examine(t, tab)
				images(t, tab, s.Figures)
				if dark := s.Ground != "rgb(255, 255, 255)"; dark != (l.scheme == "dark" && l.media == "screen") {
					t.Errorf("the page is %s", s.Ground)
				}
				if !l.tables { // opened, a page is too high for a picture
					picture(t, tab, name+"-"+l.name)
				}
			})
		}
		t.Run(name+"/pdf", func(t *testing.T) { pdf(t, browser, file, name) })
	}
}

// TestSize holds the page of 24 hours at 10 s and 16 metrics to its budget.
func TestSize(t *testing.T) {
	file := madeUp(t, "day.html")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes", filepath.Base(file), info.Size())
	if info.Size() > maxPage {
		t.Errorf("the page of 24 hours and 16 metrics has %d bytes, want at most %d", info.Size(), maxPage)
	}
}

// TestHostileNames opens pages whose every name is HTML, with scripts allowed: nothing of it may come alive.
func TestHostileNames(t *testing.T) {
	browser := start(t)
	for _, name := range []string{"hostile.html", "system-hostile.html"} {
		file := madeUp(t, name)
		tab := open(t, browser)
		var alive bool
		var elements, text string
		run(
			t,
			tab,
			chromedp.Navigate("file://"+file),
			chromedp.Evaluate(`document.title + document.body.textContent`, &text),
			chromedp.Evaluate(`window.evil !== undefined`, &alive),
			chromedp.Evaluate(
				`[...document.querySelectorAll('script,img,iframe,object,embed,link,base,form,a,[onerror],#evil')]
				.map(e => e.outerHTML).join('\n')`,
				&elements,
			),
		)
		if alive || elements != "" {
			t.Errorf("%s: a name came alive: %t, %.300s", name, alive, elements)
		}
		if !strings.Contains(text, "<script id=evil>") {
			t.Errorf("%s has no name as it is", name)
		}
	}
}

// pages are those that somebody must have looked at: made-up ones of all kinds, and those of the program.
var pages = []string{
	"day.html", "hostile.html", "bare.html", "short.html", "year.html", "system.html", "system-hostile.html",
	"system-bare.html", "weir-job.html", "weir-jobs.html", "weir-system.html",
}

// files makes the pages once, and returns all of them.
func files(t *testing.T) []string {
	t.Helper()
	dir := *of
	if dir == "" {
		for _, name := range pages {
			dir = filepath.Dir(madeUp(t, name))
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pages in %s, %v", len(files), dir, err)
	}
	return files
}

// madeUp returns the file of a made-up page. With -of there are none.
func madeUp(t *testing.T, name string) string {
	t.Helper()
	if *of != "" {
		t.Skip("-of names other pages")
	}
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("a page was not made: %v", err)
	}
	return file
}

// madeIn is where made makes the pages. TestMain deletes it.
var madeIn string

var made = sync.OnceValues(func() (dir string, err error) {
	dir, err = os.MkdirTemp("", "weir-pages-")
	if err != nil {
		return "", err
	}
	madeIn = dir
	program, archive := filepath.Join(dir, "weir"), filepath.Join(dir, "archive")
	for _, command := range [][]string{
		{"go", "test", "-count=1", "-run", "TestPages$", "./report/page", "-args", "-pages", dir},
		{"go", "build", "-o", program, "."},
		{program, "simulate", "archive", archive, "--from", "2026-01-01", "--days", "1", "--interval", "30m"},
		{program, "job", "1014", "--dir", archive, "--html", filepath.Join(dir, "weir-job.html")},
		{program, "job", "1014", "1015", "--dir", archive, "--html", filepath.Join(dir, "weir-jobs.html")},
		{program, "report", "system", "--dir", archive, "--html", filepath.Join(dir, "weir-system.html")},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("making the pages: %v: %w\n%s", command, err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if madeIn != "" {
		_ = os.RemoveAll(madeIn)
	}
	os.Exit(status)
}

// start starts Chromium, or skips the test. With REQUIRE_BROWSER a missing one is an error.
func start(t *testing.T) context.Context {
	t.Helper()
	var program string
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && name != "" {
			program = path
			break
		}
	}
	if program == "" {
		if os.Getenv("REQUIRE_BROWSER") != "" {
			t.Fatal("no Chromium in PATH: install chromium, or set CHROMIUM to its file")
		}
		t.Skip("BROWSER TESTS SKIPPED: NO PAGE WAS LOOKED AT, SINCE THERE IS NO CHROMIUM")
	}
	options := append(
		chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(
			program,
		),
		chromedp.Flag("headless", "new"),
		chromedp.DisableGPU,
		chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(waitFor), // it starts cold, beside other tests
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	browser, quit := chromedp.NewContext(allocator)
	t.Cleanup(quit)
	run(t, browser) // no limit of its own: it would end the browser with it
	return browser
}

// open opens a tab that ends after a while.
func open(t *testing.T, browser context.Context) context.Context {
	t.Helper()
	tab, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	tab, stop := context.WithTimeout(tab, waitFor)
	t.Cleanup(stop)
	return tab
}

func run(t *testing.T, tab context.Context, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

// listen records what the tab asks for.
func listen(t *testing.T, tab context.Context) func() []string {
	t.Helper()
	var mu sync.Mutex
	var urls []string
	chromedp.ListenTarget(tab, func(event any) {
		if e, is := event.(*network.EventRequestWillBeSent); is {
			mu.Lock()
			defer mu.Unlock()
			urls = append(urls, e.Request.URL)
		}
	})
	run(t, tab, network.Enable())
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), urls...)
	}
}

// visit opens the page without scripts. Its window is as high as the page, so that every point of it can be asked for.
func visit(t *testing.T, tab context.Context, file string, l look) {
	t.Helper()
	var height int64
	run(t, tab,
		page.BringToFront(), // a tab behind another has no pictures
		emulation.SetScriptExecutionDisabled(true),
		emulation.SetEmulatedMedia().WithMedia(l.media).WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: l.scheme},
		}),
		emulation.SetDeviceMetricsOverride(l.width, 800, 1, l.width < 600),
		chromedp.Navigate("file://"+file),
		chromedp.Evaluate(fmt.Sprintf(`document.querySelectorAll('details').forEach(d => d.open = %t)`, l.tables), nil),
		chromedp.Evaluate(`document.documentElement.scrollHeight`, &height))
	run(t, tab, emulation.SetDeviceMetricsOverride(l.width, height+1, 1, l.width < 600))
}

//go:embed look.js
var script string

// seen is what look.js finds.
type seen struct {
	Wide    []string // beyond the window
	Faint   []string // texts that stand out too little from what lies behind them
	Clash   []string // texts of figures that lie upon others, or leave their figure
	Texts   int
	Figures int
	Ground  string // the colour of the page
}

func examine(t *testing.T, tab context.Context) seen {
	t.Helper()
	var s seen
	run(t, tab, chromedp.Evaluate(fmt.Sprintf("(%s)(%v)", script, minContrast), &s))
	for what, found := range map[string][]string{
		"elements are wider than the window": s.Wide,
		"texts have too little contrast":     s.Faint, "labels overlap": s.Clash,
	} {
		if len(found) > 0 {
			t.Errorf("%d %s: %q", len(found), what, found[:min(len(found), 5)])
		}
	}
	return s
}

// images holds that every figure is an image with a name in the tree that screen readers see.
func images(t *testing.T, tab context.Context, figures int) {
	t.Helper()
	var nodes []*accessibility.Node
	run(t, tab, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		nodes, err = accessibility.GetFullAXTree().Do(ctx)
		return err
	}))
	named := 0
	for _, n := range nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		if role := string(n.Role.Value); role == `"image"` || role == `"img"` {
			if n.Name == nil || len(n.Name.Value) <= len(`""`) {
				t.Errorf("an image has no name: %s", n.NodeID)
				continue
			}
			named++
		}
	}
	if named != figures {
		t.Errorf("%d of %d figures are images with a name", named, figures)
	}
}

// pdf prints the page as somebody would who prefers dark pages.
func pdf(t *testing.T, browser context.Context, file, name string) {
	t.Helper()
	tab := open(t, browser)
	var paper []byte
	run(
		t,
		tab,
		emulation.SetEmulatedMedia().
			WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}),
		chromedp.Navigate("file://"+file),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			paper, _, err = page.PrintToPDF().WithPreferCSSPageSize(true).WithPrintBackground(true).Do(ctx)
			return err
		}),
	)
	if !strings.HasPrefix(string(paper), "%PDF-") || len(paper) < 5_000 {
		t.Errorf("printing gives %d bytes that begin with %.8q", len(paper), paper)
	}
	keep(t, name+".pdf", paper)
}

func picture(t *testing.T, tab context.Context, name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	var png []byte
	run(t, tab, chromedp.FullScreenshot(&png, 100))
	keep(t, name+".png", png)
}

func keep(t *testing.T, name string, data []byte) {
	t.Helper()
	if *shots == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*shots, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
