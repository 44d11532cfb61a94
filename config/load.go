package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/weirhpc/weir/naming"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Source lists the origins of a configuration.
type Source struct {
	File     string         // YAML; empty: none
	Environ  []string       // as os.Environ
	Set      []string       // KEY=VALUE each, such as kafka.brokers=kafka1:9093
	Flags    *pflag.FlagSet // the changed ones count, under the keys that Keys gives them
	Keys     map[string]string
	Defaults Config
}

var (
	// errUnknownKey is returned when a file or the environment sets a key that does not exist.
	errUnknownKey = errors.New("unknown key")
	// errValue is returned when a value is not of its key's kind.
	errValue = errors.New("wrong kind of value")
)

// Environment variables that set no key.
const (
	// ReportVariable names the file in which a job reports.
	ReportVariable = "WEIR_REPORT_FILE"
	// SecretVariable holds the common secret of nodes that measure the topology.
	SecretVariable = "WEIR_TOPOLOGY_SECRET"
)

// Load fills Defaults from the file, WEIR_* variables (WEIR_KAFKA_BROKERS sets kafka.brokers), Set and flags, in this
// order, and validates the result. The error joins all faults, each with the variable or flag that set the value.
func Load(src Source) (Config, error) {
	v := viper.New()
	known := flatten("", reflect.ValueOf(src.Defaults))
	for key, value := range known {
		v.SetDefault(key, value)
	}
	faults, err := src.readFile(v, known)
	if err != nil {
		return Config{}, err
	}
	setBy := map[string]string{} // by key: the variable or the flag
	for _, e := range src.Environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "WEIR_") || name == ReportVariable || name == SecretVariable {
			continue
		}
		key, ok := keyOf(name, known)
		if !ok {
			faults = append(faults, fmt.Errorf("%w: the environment variable %s%s", errUnknownKey, name,
				naming.Meant(name, variables(known))))
			continue
		}
		v.Set(key, value)
		setBy[key] = name
		if value == "" {
			setBy[key] += ", which is empty: give it a value or unset it"
		}
	}
	for _, e := range src.Set {
		key, value, _ := strings.Cut(e, "=")
		if _, ok := known[key]; !ok {
			faults = append(faults, fmt.Errorf("%w: --set %s", errUnknownKey, e))
			continue
		}
		v.Set(key, value)
		setBy[key] = "--set " + e
	}
	if src.Flags != nil {
		src.Flags.Visit(func(f *pflag.Flag) {
			if key, ok := src.Keys[f.Name]; ok {
				v.Set(key, f.Value.String())
				setBy[key] = "--" + f.Name
			}
		})
	}
	if len(faults) > 0 {
		return Config{}, errors.Join(faults...)
	}
	huge := bound(v, known)
	c := src.Defaults // a value that cannot be decoded stays at its default, so that all faults are found at once
	err = v.UnmarshalExact(&c, func(d *mapstructure.DecoderConfig) {
		d.WeaklyTypedInput = false
		d.DecodeHook = mapstructure.ComposeDecodeHookFunc(splitList, decodeScalar)
	})
	c.derive()
	for _, f := range append(wrongValues(err), c.faults(huge)...) {
		key, _, _ := strings.Cut(f.key, "[") // of an element of a list: the list's
		if name := setBy[key]; name != "" {
			f.error = fmt.Errorf("%w (set by %s)", f.error, name)
		}
		faults = append(faults, f)
	}
	return c, errors.Join(faults...)
}

// readFile reads the file into v. It returns a fault for each unknown key, or an error if the file cannot be used.
func (src Source) readFile(v *viper.Viper, known map[string]any) (faults []error, err error) {
	if src.File == "" {
		return nil, nil
	}
	text, err := ReadFile(src.File)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	tree, err := parseYAML(text)
	if err == nil {
		err = v.MergeConfigMap(tree)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", src.File, err)
	}
	sections := map[string]string{} // with one of the keys below each
	for key := range known {
		for i, r := range key {
			if r == '.' {
				if example := sections[key[:i]]; example == "" || key < example {
					sections[key[:i]] = key
				}
			}
		}
	}
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if _, ok := known[key]; ok {
			continue
		}
		near := naming.Meant(key, known)
		fault := fmt.Errorf("%w %s in %s%s%s", errUnknownKey, key, src.File, lineOf(text, key), near)
		if example := sections[key]; example != "" {
			fault = fmt.Errorf("%s in %s: %w: keys below it are wanted, such as %s", key, src.File, errValue, example)
		}
		faults = append(faults, fault)
	}
	return faults, nil
}

// flatten returns the leaves of a configuration by their dotted keys.
func flatten(prefix string, v reflect.Value) map[string]any {
	leaves := map[string]any{}
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("mapstructure")
		if tag == "-" {
			continue // no key
		}
		key := prefix + tag
		if v.Field(i).Kind() == reflect.Struct {
			maps.Copy(leaves, flatten(key+".", v.Field(i)))
			continue
		}
		leaves[key] = v.Field(i).Interface()
	}
	return leaves
}

// variables returns the environment variables of keys.
func variables(known map[string]any) map[string]any {
	names := map[string]any{}
	for key := range known {
		names[variableOf(key)] = nil
	}
	return names
}

func variableOf(key string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// keyOf finds the key that an environment variable names: dots became underscores, which keys have too.
func keyOf(name string, known map[string]any) (string, bool) {
	for key := range known {
		if variableOf(key) == name {
			return key, true
		}
	}
	return "", false
}

// allKeys returns every key, sorted.
func allKeys() []string {
	var keys []string
	for key := range flatten("", reflect.ValueOf(Config{})) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
