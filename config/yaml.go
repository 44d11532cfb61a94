package config

import (
	"bytes"
	"fmt"
	"reflect"
	"time"

	"go.yaml.in/yaml/v3"
)

// marshalYAML writes a configuration in the order of its struct, durations as a person writes them.
func marshalYAML(c Config) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(yamlNode(reflect.ValueOf(c))); err != nil {
		return nil, fmt.Errorf("writing the configuration as YAML: %w", err)
	}
	return b.Bytes(), nil
}

func yamlNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: v.Type().Field(i).Tag.Get("mapstructure")}
		value := &yaml.Node{}
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			value = yamlNode(f)
		case f.Type() == reflect.TypeFor[time.Duration]():
			value.SetString(f.Interface().(time.Duration).String())
		default:
			if err := value.Encode(f.Interface()); err != nil { // strings, numbers, booleans, lists of strings: cannot fail
				panic(err)
			}
		}
		n.Content = append(n.Content, key, value)
	}
	return n
}
