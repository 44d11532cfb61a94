package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnknownKeyNamesItsLine: a slip in a file is answered by its line and the key that was meant.
func TestUnknownKeyNamesItsLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "cluster: c\nkafka:\n  sasl: {mechanism: PLAIN, password: x}\n\n# a remark\nColectors: 3\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Source{File: file, Defaults: Default()})
	for _, want := range []string{
		"colectors in " + file + ", line 6: did you mean collectors?", "password in " + file + ", line 3: did you mean kafka.sasl.password_file",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err = Load(Source{Environ: []string{"WEIR_KAFKA_SASL_PASSWORD=x"}, Defaults: Default()})
	const want = "variable WEIR_KAFKA_SASL_PASSWORD: did you mean WEIR_KAFKA_SASL_PASSWORD_FILE"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
