package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds a configuration, a certificate or a password, which are short.
const maxFileBytes = 1 << 20

var errLong = errors.New("name another file")

// credentials is the directory into which systemd puts the secrets of a unit, as the beginning of a path in the
// configuration.
const credentials = "${CREDENTIALS_DIRECTORY}/"

var errNoCredentials = errors.New("CREDENTIALS_DIRECTORY is not set: " +
	"systemd sets it for a unit with LoadCredential=. By hand, name the file itself")

// ReadFile returns the content of a file. A path may begin with ${CREDENTIALS_DIRECTORY}/. The error names the file.
func ReadFile(path string) ([]byte, error) {
	if name, secret := strings.CutPrefix(path, credentials); secret {
		dir := os.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return nil, fmt.Errorf("%s: %w", path, errNoCredentials)
		}
		path = filepath.Join(dir, name)
	}
	return readFile(path, maxFileBytes)
}

func readFile(path string, most int64) ([]byte, error) {
	return Answer(path, func() ([]byte, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // nothing was written
		text, err := io.ReadAll(io.LimitReader(file, most+1))
		if err == nil && int64(len(text)) > most {
			err = fmt.Errorf("%s: longer than %d MiB: %w", path, most>>20, errLong)
		}
		return text, err
	})
}

// lineOf returns the line of a dotted key as the end of a message, or nothing if the file does not have the key. The
// letters of keys may be large, as viper reads them.
func lineOf(text []byte, key string) string {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return ""
	}
	at, line := document.Content[0], 0
	for name := range strings.SplitSeq(key, ".") {
		var value *yaml.Node
		for i := 0; at.Kind == yaml.MappingNode && i+1 < len(at.Content); i += 2 {
			if strings.EqualFold(at.Content[i].Value, name) {
				value, line = at.Content[i+1], at.Content[i].Line
			}
		}
		if value == nil {
			return ""
		}
		at = value
	}
	return fmt.Sprintf(", line %d", line)
}

// parseYAML returns the keys of a configuration file. A key without a value counts as absent.
func parseYAML(text []byte) (map[string]any, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document, further yaml.Node
	if err := d.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil // empty
	} else if err != nil {
		return nil, oneLine(err)
	}
	if err := d.Decode(&further); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document: only one may stand between lines of ---")
	}
	keepNumbers(&document)
	top := document.Content[0]
	if top.Kind == yaml.ScalarNode && top.Tag == "!!null" {
		return nil, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: keys with values are wanted, such as `collectors: 64`", top.Line)
	}
	var tree map[string]any
	if err := top.Decode(&tree); err != nil {
		return nil, oneLine(err)
	}
	return tree, sameKeys("", tree)
}

// keepNumbers makes texts of the whole numbers beyond int64, because YAML would round them.
func keepNumbers(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
		if _, err := strconv.ParseInt(n.Value, 10, 64); errors.Is(err, strconv.ErrRange) {
			n.Tag = "!!str"
		}
	}
	for _, child := range n.Content { // an alias has no content of its own, so this ends
		keepNumbers(child)
	}
}

// sameKeys leaves out keys without a value, and returns an error if two keys of a map differ only in case.
func sameKeys(prefix string, tree map[string]any) error {
	first := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		lower := strings.ToLower(key)
		if other, twice := first[lower]; twice {
			return fmt.Errorf("%s%s and %s%s are the same key: leave one out", prefix, other, prefix, key)
		}
		first[lower] = key
		switch value := tree[key].(type) {
		case nil:
			delete(tree, key)
		case map[string]any:
			if err := sameKeys(prefix+key+".", value); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneLine returns an error of the YAML library on one line.
func oneLine(err error) error {
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors: ")
	if strings.Contains(text, "found character that cannot start any token") {
		text += " (a tab? YAML indents with spaces)"
	}
	return errors.New(text)
}
