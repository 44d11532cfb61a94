package kafka

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/schemas/second"
)

// fakeRegistry starts a registry in this process, and returns a configuration that names it.
func fakeRegistry(t *testing.T) (*srfake.Registry, config.Config) {
	t.Helper()
	r := srfake.New()
	t.Cleanup(r.Close)
	c := config.Default()
	c.Registry.URL = r.URL()
	return r, c
}

func register(t *testing.T, c config.Config) map[string]uint32 {
	t.Helper()
	ids, err := RegisterSchemas(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// versions are the texts of a subject's versions, in order.
func versions(r *srfake.Registry, subject string) (texts []string) {
	for v := 1; ; v++ {
		s, ok := r.GetSchema(subject, v)
		if !ok {
			return texts
		}
		texts = append(texts, s.Schema.Schema)
	}
}

func shipped(topic string) (texts []string) {
	for _, s := range schemas.OfTopic(topic) {
		texts = append(texts, s.Text)
	}
	return texts
}

// TestRegister: each subject has all schemas, the oldest first, and a second run changes nothing.
func TestRegister(t *testing.T) {
	t.Parallel()
	r, c := fakeRegistry(t)
	ids := register(t, c)
	for _, topic := range schemas.PublicTopics() {
		if got := versions(r, "weir."+topic+"-value"); !slices.Equal(got, shipped(topic)) {
			t.Errorf("%s has %d versions, or in another order", topic, len(got))
		}
		for i, s := range schemas.OfTopic(topic) {
			if v, _ := r.GetSchema("weir."+topic+"-value", i+1); uint32(v.ID) != ids[s.Key()] || v.ID == 0 {
				t.Errorf("%s: schema %s has id %d, want %d", topic, s.Key(), ids[s.Key()], v.ID)
			}
		}
	}
	if again := register(t, c); !maps.Equal(ids, again) {
		t.Errorf("again: %v, want %v", again, ids)
	}
	if got := versions(r, "weir.jobs-value"); len(got) != len(shipped(schemas.TopicJobs)) {
		t.Errorf("again: %d versions", len(got))
	}
	if err := CheckRegistry(t.Context(), c, ids, second.CheckText); err != nil {
		t.Error(err)
	}
	c.Prefix = "other." // another installation has subjects of its own, and the same ids
	if other := register(t, c); !maps.Equal(ids, other) {
		t.Errorf("another prefix: %v, want %v", other, ids)
	}
}

// TestRegisterBehindANewerOne: an older schema is never the latest version.
func TestRegisterBehindANewerOne(t *testing.T) {
	t.Parallel()
	r, c := fakeRegistry(t)
	all := shipped(schemas.TopicJobSummary)
	r.SeedSchema("weir.job-summary-value", 1, 41, sr.Schema{Schema: all[1]})
	ids := register(t, c)
	if got := versions(r, "weir.job-summary-value"); !slices.Equal(got, all[1:]) {
		t.Errorf("%d versions, or in another order", len(got))
	}
	keys := schemas.OfTopic(schemas.TopicJobSummary)
	if ids[keys[0].Key()] != 0 || ids[keys[1].Key()] != 41 || ids[keys[2].Key()] == 0 {
		t.Errorf("ids %v", ids)
	}
	if err := CheckRegistry(t.Context(), c, ids, second.CheckText); err != nil {
		t.Error(err)
	}
}

// TestIncompatible: a subject that is another's is named with the remedy, before anything is registered.
func TestIncompatible(t *testing.T) {
	t.Parallel()
	const subject = "weir.jobs-value" // the last of the three
	foreign := sr.Schema{Schema: `{"type": "record", "name": "Job", "fields": [{"name": "x", "type": "long"}]}`}
	answer := func(w http.ResponseWriter, status int, body any) bool {
		w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
		return true
	}
	for name, refuse := range map[string]srfake.Interceptor{
		"by the check": func(w http.ResponseWriter, r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, "/compatibility/subjects/"+subject) &&
				answer(w, http.StatusOK, sr.CheckCompatibilityResult{Messages: []string{"READER_FIELD_MISSING"}})
		},
		"at the registration": func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodPost && r.URL.Path == "/subjects/"+subject+"/versions" &&
				answer(w, http.StatusConflict, sr.ResponseError{ErrorCode: 409, Message: "READER_FIELD_MISSING"})
		},
	} {
		r, c := fakeRegistry(t)
		r.SeedSchema(subject, 1, 1, foreign)
		r.Intercept(refuse)
		_, err := RegisterSchemas(t.Context(), c)
		for _, text := range []string{
			subject, c.Registry.URL, "READER_FIELD_MISSING", "delete the subject", "another prefix",
		} {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v lacks %q", name, err, text)
			}
		}
		if name == "by the check" && r.SubjectExists("weir.job-summary-value") {
			t.Errorf("%s: another subject was registered", name)
		}
	}
}

// TestRegistryRefuses: each reason is named with the address and a remedy. None is taken for a missing schema.
func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	down, _ := fakeRegistry(t)
	down.Close()
	answers := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, tc := range map[string]struct{ url, says string }{
		"down":         {down.URL(), "that the registry runs"},
		"unauthorized": {answers(http.StatusUnauthorized, `{"error_code": 401}`), "check registry.user"},
		"forbidden":    {answers(http.StatusForbidden, `{"error_code": 40301}`), "check registry.user"},
		"elsewhere":    {answers(http.StatusNotFound, `{"error_code": 404, "message": "what?"}`), "/apis/ccompat/v7"},
		"broken":       {answers(http.StatusInternalServerError, `{"error_code": 50001, "message": "disk"}`), "disk"},
		"no JSON":      {answers(http.StatusOK, `<html>`), "check registry.url"},
		"no id":        {answers(http.StatusOK, `{}`), "/apis/ccompat/v7"},
		"a large id":   {answers(http.StatusOK, `{"id": 4294967297}`), "/apis/ccompat/v7"},
	} {
		c := config.Default()
		c.Registry.URL = tc.url
		_, registered := RegisterSchemas(t.Context(), c)
		for _, err := range []error{registered, CheckRegistry(t.Context(), c, nil, second.CheckText)} {
			if !errors.Is(err, errRegistry) || !strings.Contains(err.Error(), tc.url) ||
				!strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestRegistryHoldsAnotherText: the registry answers with the right id and a text that is not the schema's. By goavro
// its canonical form is another one. Documentation and order may differ.
func TestRegistryHoldsAnotherText(t *testing.T) {
	t.Parallel()
	r, c := fakeRegistry(t)
	ids := register(t, c)
	newest := schemas.OfTopic(schemas.TopicJobs)[len(schemas.OfTopic(schemas.TopicJobs))-1]
	for name, tc := range map[string]struct{ old, by, says string }{
		"without documentation": {`"doc"`, `"note"`, ""},
		"another type":          {`"name": "restart", "type": "int"`, `"name": "restart", "type": "long"`, "canonical form is"},
		"no schema":             {`"record"`, `"table"`, "goavro does not read it"},
	} {
		text := strings.ReplaceAll(newest.Text, tc.old, tc.by)
		if text == newest.Text {
			t.Fatalf("%s: nothing replaced", name)
		}
		r.ClearInterceptors()
		r.Intercept(func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method != http.MethodPost || q.URL.Path != "/subjects/weir.jobs-value" {
				return false
			}
			var asked sr.Schema
			body, err := io.ReadAll(q.Body)
			if err != nil || json.Unmarshal(body, &asked) != nil {
				t.Error(err)
			}
			q.Body = io.NopCloser(bytes.NewReader(body))
			if asked.Schema != newest.Text {
				return false
			}
			w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
			_ = json.NewEncoder(w).Encode(sr.SubjectSchema{
				Subject: "weir.jobs-value", ID: int(ids[newest.Key()]), Version: 1, Schema: sr.Schema{Schema: text},
			})
			return true
		})
		err := CheckRegistry(t.Context(), c, ids, second.CheckText)
		if (err == nil) != (tc.says == "") ||
			err != nil && (!errors.Is(err, ErrTopics) || !strings.Contains(err.Error(), tc.says) ||
				!strings.Contains(err.Error(), "subject weir.jobs-value: the text of id")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRegistryReset: a registry that was made anew gives other ids, or lacks the schemas. Each is a fault.
func TestRegistryReset(t *testing.T) {
	t.Parallel()
	r, c := fakeRegistry(t)
	before := register(t, c)
	r.Reset()
	newest := schemas.OfTopic(schemas.TopicFindings)[0]
	err := CheckRegistry(t.Context(), c, before, second.CheckText)
	lacks := "subject weir.findings-value lacks schema weir.v1.Finding " + newest.Key() + ", which records name by id"
	if !errors.Is(err, ErrTopics) || !strings.Contains(err.Error(), lacks) ||
		!strings.Contains(err.Error(), "from its backup") {
		t.Errorf("an empty registry: %v", err)
	}
	r.SeedSchema("another", 1, 1, sr.Schema{Schema: `"string"`})
	after := register(t, c)
	if err := CheckRegistry(t.Context(), c, after, second.CheckText); err != nil {
		t.Error(err)
	}
	for key, id := range before {
		if after[key] == id {
			t.Fatalf("the registry gives %s the id of before", key)
		}
	}
	err = CheckRegistry(t.Context(), c, before, second.CheckText)
	restarts := strings.Count(err.Error(), "restart collect, merge, find and balance")
	if !errors.Is(err, ErrTopics) || restarts != len(before) {
		t.Errorf("other ids: %v", err)
	}
	err = CheckRegistry(t.Context(), c, nil, second.CheckText)
	if !errors.Is(err, ErrTopics) || strings.Count(err.Error(), "has no id of schema") != len(before) {
		t.Errorf("no ids: %v", err)
	}
}

// TestRegistryLogin: the password comes from a file, and the certificate is checked against registry.ca_file.
func TestRegistryLogin(t *testing.T) {
	t.Parallel()
	r := srfake.NewRegistry()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, _ := q.BasicAuth(); user != "admin" || password != "se cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.Handler().ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	c := config.Default()
	c.Registry = config.Registry{
		URL: server.URL + "/", User: "admin", PasswordFile: file("password", "se cret\n"), CAFile: file("ca.pem", ca),
	}
	if len(register(t, c)) == 0 {
		t.Error("no ids")
	}
	for name, tc := range map[string]struct {
		change func(r *config.Registry)
		says   string
	}{
		"another password": {func(r *config.Registry) { r.PasswordFile = file("p", "x") }, "status 401"},
		"no password":      {func(r *config.Registry) { r.PasswordFile = file("p", "\n") }, "registry.password_file"},
		"no file":          {func(r *config.Registry) { r.PasswordFile = "/nosuch" }, "registry.password_file"},
		"no certificate":   {func(r *config.Registry) { r.CAFile = file("c", "x") }, "registry.ca_file"},
		"another CA":       {func(r *config.Registry) { r.CAFile = "" }, "check registry.url and registry.ca_file"},
	} {
		wrong := c
		tc.change(&wrong.Registry)
		if _, err := RegisterSchemas(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		readable := name == "another password" || name == "another CA"
		if err := CheckRegistryFiles(wrong.Registry); (err == nil) != readable {
			t.Errorf("%s: the check of files: %v", name, err)
		}
	}
	if err := CheckRegistryFiles(config.Registry{}); err != nil {
		t.Error(err)
	}
}

// TestEndlessAnswerOfARegistry: any server may answer at registry.url. Its answer does not fill the memory.
func TestEndlessAnswerOfARegistry(t *testing.T) {
	t.Parallel()
	sent := make(chan int64, 1)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk, n := make([]byte, 1<<20), int64(0)
		for n < 1<<30 {
			k, err := w.Write(chunk)
			if n += int64(k); err != nil {
				break
			}
		}
		select {
		case sent <- n:
		default:
		}
	}))
	defer endless.Close()
	c := config.Default()
	c.Registry.URL = endless.URL
	_, err := RegisterSchemas(t.Context(), c)
	if !errors.Is(err, errRegistry) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("error %v", err)
	}
	if n := <-sent; n > 64<<20 {
		t.Errorf("%d MiB of it were read", n>>20)
	}
}
