package notify

import (
	"encoding/json"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// hostile are names that users choose to spoil the messages of others.
var hostile = []string{
	"wrf\r\nBcc: all@example.org", "a\nSubject: x", "\r\n\r\n<script>", "=?utf-8?q?x=0aBcc:_b@c?=", "x\x00y", "\u202egpj.exe",
	strings.Repeat("é", 4000), "```\n@all", "<!channel>", "a;b|c\"d", "{{.User}}", "%s%n", "\u2028", "\x1b[2J",
}

func senderOf(t *testing.T, change func(n *config.Notify)) *sender {
	t.Helper()
	cfg := config.Default().Notify
	cfg.From, cfg.Domain, cfg.Link = "HPC <hpc@example.org>", "example.org", "https://w.example.org/{cluster}/{job}/{user}"
	if change != nil {
		change(&cfg)
	}
	texts, err := newTexts("c1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &sender{cfg: cfg, texts: texts}
}

func noticeFor(user, name, title string) *schemas.Notice {
	return &schemas.Notice{
		Cluster: "c1", JobID: "7", Task: "7", Last: "7", Tasks: 1, Channel: schemas.ChannelMail, User: user, Name: name,
		Rule: "r", Title: title, Hint: title, Slurm: title, WastedCoreHours: 30, HeldCoreHours: 40, Ended: aMonday,
	}
}

// TestHostileNamesInMail: whatever a job is called, the header of its mail has our fields, and one recipient.
func TestHostileNamesInMail(t *testing.T) {
	s := senderOf(t, nil)
	for _, bad := range hostile {
		n := noticeFor("alice", bad, bad)
		to := &mail.Address{Address: "alice@example.org"}
		text, err := s.compose(message{id: "1f", user: n.User, notices: []*schemas.Notice{n}}, false, to, time.Now())
		if err != nil {
			t.Fatalf("%q: %v", bad, err)
		}
		m, err := mail.ReadMessage(strings.NewReader(string(text)))
		if err != nil {
			t.Fatalf("%q: %v", bad, err)
		}
		all, err := m.Header.AddressList("To")
		if len(m.Header) != 9 || err != nil || len(all) != 1 || all[0].Address != "alice@example.org" {
			t.Errorf("%q: %d fields, to %v in\n%s", bad, len(m.Header), all, text)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		if err != nil || strings.ContainsAny(subject, "\r\n") || !strings.HasPrefix(subject, "Job 7 on c1: ") {
			t.Errorf("%q: subject %q, %v", bad, subject, err)
		}
		if _, err := io.ReadAll(quotedprintable.NewReader(m.Body)); err != nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, user := range append([]string{"-t", "a b", "a,b", "a@b.c", "", "root\n", "a\"b"}, hostile...) {
		o := s.mail(t.Context(), message{id: "1f", user: user, notices: []*schemas.Notice{noticeFor(user, "x", "y")}}, false)
		if o.kind != never {
			t.Errorf("user %q: %+v", user, o)
		}
	}
}

// TestHostileNamesInChats: in a chat's message a name is text, and calls nobody.
func TestHostileNamesInChats(t *testing.T) {
	for _, form := range []string{config.FormSlack, config.FormMattermost, config.FormTeams, config.FormJSON} {
		s := senderOf(t, func(n *config.Notify) { n.Webhook.Form = form })
		for _, bad := range hostile {
			n := noticeFor(bad, bad, bad)
			body, err := s.form(message{id: "1f", user: bad, notices: []*schemas.Notice{n}}, false)
			if err != nil {
				t.Fatal(err)
			}
			var flat struct {
				Text        string
				Attachments []any
			}
			if err := json.Unmarshal(body, &flat); err != nil {
				t.Fatalf("%s: %v in %s", form, err, body)
			}
			inner := strings.TrimSuffix(strings.TrimPrefix(flat.Text, "```"), "```")
			switch form {
			case config.FormSlack, config.FormMattermost:
				if len(inner) != len(flat.Text)-6 || strings.Contains(inner, "```") ||
					form == config.FormSlack && strings.Contains(inner, "<") {
					t.Errorf("%s: %q leaves its text: %s", form, bad, flat.Text)
				}
			case config.FormTeams:
				if len(flat.Attachments) != 1 || strings.Contains(string(body), "TextBlock\",\"text\"") {
					t.Errorf("%s", body)
				}
			}
		}
	}
}

// TestLinkLeadsToTheSite: a name cannot change where a link leads.
func TestLinkLeadsToTheSite(t *testing.T) {
	s := senderOf(t, nil)
	for _, bad := range hostile {
		link := s.texts.link(noticeFor("../../@evil.example?"+bad, "x", "y"))
		if !strings.HasPrefix(link, "https://w.example.org/c1/7/") || strings.Count(link, "/") != 5 ||
			strings.ContainsAny(link, " \n\r\"<>?") {
			t.Errorf("%q", link)
		}
	}
}

// TestComment: one line of at most 200 bytes, which sacctmgr takes as one text.
func TestComment(t *testing.T) {
	s := senderOf(t, nil)
	for _, bad := range hostile {
		line := s.texts.comment(noticeFor("alice", bad, bad))
		if len(line) > 200 || strings.ContainsAny(line, "\"\r\n|") || !utf8.ValidString(line) ||
			!strings.HasPrefix(line, "weir: 30 of 40 core-hours without work: ") {
			t.Errorf("%q", line)
		}
	}
}

// TestTemplate: a site's text takes the place of the shipped one, and one that cannot be used is an error at the start.
func TestTemplate(t *testing.T) {
	dir := t.TempDir()
	for text, works := range map[string]bool{
		"{{.Job.Title}} in {{.Cluster}}\nDear {{.User}}: {{.Job.Hint}} {{.Job.Cost}} {{.Job.Link}}\n": true,
		"{{.Job.Nosuch}}\nx\n": false, "{{if}}\n": false, "subject alone\n": false, "": false,
	} {
		cfg := config.Default().Notify
		cfg.Template = filepath.Join(dir, "text")
		if err := os.WriteFile(cfg.Template, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newTexts("c1", cfg); (err == nil) != works {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestShippedText: whoever never heard of weir learns what happened, what it cost, and what to change.
func TestShippedText(t *testing.T) {
	s := senderOf(t, nil)
	n := noticeFor("alice", "wrf", "Cores without work")
	n.Hint = "About 48 of 64 cores of each node work."
	n.Slurm = "#SBATCH --nodes=6"
	subject, text, err := s.texts.write(message{id: "1f", user: "alice", notices: []*schemas.Notice{n}}, false)
	want := `Hello alice,

your job on c1 held more than it used. One change may help:

Job 7 (wrf), ended 2026-11-23 08:00 UTC
  Problem: Cores without work
  Cost:    30 of 40 core-hours without work
  Advice:  About 48 of 64 cores of each node work.
  In the job script: #SBATCH --nodes=6
  Measurements: https://w.example.org/c1/7/alice

These numbers were measured while the job ran. A core is a logical CPU. If a job has to be like this, there is nothing
to do. You hear of the same problem once in 7 days; questions, and the wish to get no such message, go to HPC <hpc@example.org>.
`
	if err != nil || subject != "Job 7 on c1: Cores without work" || text != want {
		t.Errorf("%v\n%s\n%s", err, subject, text)
	}
	more := *n
	more.JobID, more.Task, more.WastedCoreHours = "8", "8", 35
	_, text, err = s.texts.write(message{id: "1f", user: "alice", notices: []*schemas.Notice{n, &more}}, true)
	if err != nil || !strings.Contains(text, "Job 8") || strings.Contains(text, "Job 7") ||
		!strings.Contains(text, "The same in 1 more of your jobs, 30 of 40 core-hours without work in all.") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestAddressCommand: a program of the site finds addresses. One that prints something else gets no mail out.
func TestAddressCommand(t *testing.T) {
	program := filepath.Join(t.TempDir(), "address")
	script := "#!/bin/sh\ncase $1 in\nalice) echo 'Alice <a.miller@example.org>';;\nnobody) ;;\n" +
		"two) printf 'a@b.c\\nd@e.f\\n';;\nbad) echo 'no address';;\n*) exit 1;;\nesac\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	s := senderOf(t, func(n *config.Notify) { n.Domain, n.AddressCommand = "", program })
	for user, want := range map[string]outcome{
		"alice": {kind: delivered}, "nobody": {kind: never}, "two": {kind: never}, "bad": {kind: never}, "else": {kind: again},
	} {
		a, o := s.address(t.Context(), user)
		if o.kind != want.kind || user == "alice" && a.String() != "<a.miller@example.org>" {
			t.Errorf("%s: %v, %+v", user, a, o)
		}
	}
}

// TestCommentNeverReplacesAnothers: Slurm's accounting keeps what others wrote.
func TestCommentNeverReplacesAnothers(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"sacct":    "#!/bin/sh\ncat " + dir + "/comment\n",
		"sacctmgr": "#!/bin/sh\necho \"$@\" >>" + dir + "/calls\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	s := senderOf(t, nil)
	s.slurm = dir
	n := noticeFor("alice", "wrf", "Cores without work")
	for _, c := range []struct {
		task, there string
		kind        int
		calls       bool
	}{
		{"7", "7|\n", delivered, true},
		{"7_3", "7_3|\n", delivered, true},
		{"7", "7|JS1:abc\n", never, false},
		{"7", "7|weir: 3 of 4 core-hours\n", delivered, false},
		{"7", "", again, false},
		{"7", "8|\n", again, false},
		{"host", "host|\n", never, false},
		{"7,8", "7,8|\n", never, false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "comment"), []byte(c.there), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(dir, "calls"))
		n.Task = c.task
		o := s.comment(t.Context(), n)
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		if o.kind != c.kind || (len(calls) > 0) != c.calls {
			t.Errorf("%q of %s: %+v, called %q", c.there, c.task, o, calls)
		}
		if c.calls && !strings.HasPrefix(string(calls),
			"--immediate modify job where jobid="+c.task+` set AdminComment="weir: 30 of 40 core-hours`) {
			t.Errorf("%q", calls)
		}
	}
}

// TestListsOfUsers: users stand in the configuration or in a file, and a file that cannot be read stops all messages.
func TestListsOfUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quiet")
	if err := os.WriteFile(file, []byte("# who wants none\nbob\n carol # asked on Monday\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := readUsers(config.Notify{OptOut: []string{"dave", file}})
	if err != nil || u.allow("bob") || u.allow("carol") || u.allow("dave") || !u.allow("alice") || !u.allow("#") {
		t.Errorf("%v, %v", u, err)
	}
	u, err = readUsers(config.Notify{OptOut: []string{"dave"}, OptIn: []string{file, "dave"}})
	if err != nil || !u.allow("bob") || u.allow("dave") || u.allow("alice") {
		t.Errorf("%v, %v", u, err)
	}
	if _, err := readUsers(config.Notify{OptOut: []string{file + "x"}}); err == nil {
		t.Error("a list that is not there is no error")
	}
}
