package source

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
)

// removed stands in a report for a text that could identify the site.
const removed = "(removed)"

// redactor removes texts that identify a host or a person. The report names none on purpose, but an error of the kernel
// or the name of a device may contain one.
type redactor struct {
	known *regexp.Regexp // names and numbers of this host; nil: none
}

// identifiers are addresses, GUIDs and UUIDs: groups of hexadecimal digits, or 12 and more of them. A hexadecimal
// number of an event begins with 0x, so it is none.
var identifiers = regexp.MustCompile(`(?i)\b(` +
	`(?:[0-9a-f]{2}[:-]){5,}[0-9a-f]{2}` + // MAC addresses, and those of InfiniBand
	`|(?:[0-9a-f]{4}:){3}[0-9a-f]{4}` + // GUIDs
	`|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}` + // UUIDs
	`|(?:enx|wlx|wwx)?[0-9a-f]{12,}` + // names of interfaces by address, identifiers of a machine
	`)\b`)

// addresses finds texts that may be IP addresses. Of these, addresses that netip accepts are removed.
var addresses = regexp.MustCompile(`[0-9a-fA-F]*[:.][0-9a-fA-F:.]+`)

// redactorOf knows the names and serial numbers of this host, as far as this process may read them.
func redactorOf(cfg config.Agent) redactor {
	host, _ := os.Hostname() // without a name there is nothing to find
	names := []string{host, cfg.Node, os.Getenv("USER"), os.Getenv("LOGNAME"), filepath.Base(os.Getenv("HOME"))}
	for _, file := range []string{"hostname", "domainname"} {
		names = append(names, textOf(filepath.Join(cfg.ProcPath, "sys/kernel", file)))
	}
	for _, file := range []string{
		"product_serial", "product_uuid", "board_serial", "board_asset_tag", "chassis_serial", "chassis_asset_tag",
	} {
		names = append(names, textOf(filepath.Join(cfg.SysPath, "class/dmi/id", file)))
	}
	for _, name := range names {
		label, domain, _ := strings.Cut(name, ".")
		names = append(names, label, domain)
	}
	var words []string
	for _, name := range names {
		switch name {
		case "", ".", "/", "root", "(none)", "localhost":
		default:
			words = append(words, regexp.QuoteMeta(name))
		}
	}
	if len(words) == 0 {
		return redactor{}
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) }) // the longest match is wanted
	// An underscore belongs to a word for regexp, and separates words in names of files.
	return redactor{regexp.MustCompile(`(?i)(^|[^0-9a-z])(?:` + strings.Join(words, "|") + `)($|[^0-9a-z])`)}
}

// text removes everything that identifies the host from a text.
func (r redactor) text(s string) string {
	s = identifiers.ReplaceAllString(s, removed)
	s = addresses.ReplaceAllStringFunc(s, func(found string) string {
		address := strings.TrimRight(found, ".:") // the end of a sentence
		_, err := netip.ParseAddr(address)
		if _, withPort := netip.ParseAddrPort(address); err == nil || withPort == nil {
			return removed
		}
		return found
	})
	if r.known == nil {
		return s
	}
	for r.known.MatchString(s) { // two neighbours share the character between them
		s = r.known.ReplaceAllString(s, "${1}"+removed+"${2}")
	}
	return s
}

// clean removes it from every text that v points to. Texts of weir itself, which are tagged `own`, are kept: a host may
// be called core.
func (r redactor) clean(v any) { r.cleanValue(reflect.ValueOf(v)) }

func (r redactor) cleanValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			r.cleanValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("own") == "" {
				r.cleanValue(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.cleanValue(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if of := v.MapIndex(key); of.Kind() == reflect.String {
				v.SetMapIndex(key, reflect.ValueOf(r.text(of.String())))
			}
		}
	case reflect.String:
		v.SetString(r.text(v.String()))
	}
}
