package config

import (
	"bytes"
	"fmt"
	"reflect"
	"time"

	"go.yaml.in/yaml/v3"
)

// YAML returns the configuration as a file that Load reads. It holds no password, only the names of their files.
func (c Config) YAML() ([]byte, error) { return marshalYAML(c) }

// marshalYAML writes a configuration in the order of its struct, with durations such as 10s.
func marshalYAML(c Config) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(yamlNode(reflect.ValueOf(c))); err != nil {
		return nil, fmt.Errorf("writing the configuration as YAML: %w", err)
	}
	return b.Bytes(), nil
}

// yamlNode takes the keys from the tags of mapstructure, which the YAML package does not know. They keep the order of
// the struct, so that a person can compare the output with the reference file.
func yamlNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: v.Type().Field(i).Tag.Get("mapstructure")}
		if key.Value == "-" {
			continue
		}
		value := &yaml.Node{}
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			value = yamlNode(f)
		case isSections(f.Type()) && f.Len() > 0:
			value.Kind = yaml.SequenceNode
			for j := range f.Len() {
				value.Content = append(value.Content, yamlNode(f.Index(j)))
			}
		case f.Type() == reflect.TypeFor[time.Duration]():
			value.SetString(f.Interface().(time.Duration).String())
		default:
			if err := value.Encode(f.Interface()); err != nil {
				panic(err) // strings, numbers, booleans, lists of strings and empty lists cannot fail
			}
		}
		n.Content = append(n.Content, key, value)
	}
	return n
}

// isSections reports whether a key of this type holds a list of sections, each with keys of its own.
func isSections(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}
