package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// bound replaces whole numbers beyond int64 by the nearest one. It returns the given numbers by key.
func bound(v *viper.Viper, known map[string]any) map[string]string {
	huge := map[string]string{}
	for key, value := range known {
		if kind := reflect.TypeOf(value).Kind(); kind != reflect.Int && kind != reflect.Int64 {
			continue
		}
		var nearest int64
		switch given := v.Get(key).(type) {
		case string:
			n, err := strconv.ParseInt(given, 10, 64)
			if !errors.Is(err, strconv.ErrRange) {
				continue
			}
			nearest = n
		case float64:
			if math.Abs(given) < 1<<63 {
				continue
			} else if nearest = math.MaxInt64; given < 0 {
				nearest = math.MinInt64
			}
		case uint64:
			nearest = int64(min(given, math.MaxInt64))
		default:
			continue
		}
		huge[key] = fmt.Sprint(v.Get(key))
		v.Set(key, nearest)
	}
	return huge
}

// wrongValues returns each error of a decoding as a fault.
func wrongValues(err error) (faults []fault) {
	switch e := err.(type) { //nolint:errorlint // each level of the tree by itself
	case nil:
	case *mapstructure.DecodeError:
		reason := strings.Replace(e.Unwrap().Error(), "source data must be an array or slice", "a list is wanted", 1)
		faults = append(faults, fault{e.Name(), fmt.Errorf("%s: %w: %s", e.Name(), errValue, reason)})
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			faults = append(faults, wrongValues(one)...)
		}
	case interface{ Unwrap() error }:
		return wrongValues(e.Unwrap())
	default:
		faults = append(faults, fault{"", fmt.Errorf("%w: %w", errValue, err)})
	}
	return faults
}

// splitList makes a list from a text with commas, the form of a list in the environment.
func splitList(_, to reflect.Type, value any) (any, error) {
	text, isText := value.(string)
	if !isText || to.Kind() != reflect.Slice {
		return value, nil
	}
	list := []string{}
	if text == "" {
		return list, nil
	}
	if isSections(to) {
		return nil, fmt.Errorf("%s is not a list of sections: set it in a file", shown(value))
	}
	for item := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(item))
	}
	return list, nil
}

// decodeScalar converts the texts of the environment and of flags to the type of a key. It refuses numbers that the
// library would round or take for nanoseconds.
func decodeScalar(from, to reflect.Type, value any) (any, error) {
	text, isText := value.(string)
	switch {
	case from == to: // a default
	case to == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if !isText || err != nil {
			return nil, fmt.Errorf("%s is not a duration such as 500ms, 10s or 24h", shown(value))
		}
		return d, nil
	case to.Kind() == reflect.Int || to.Kind() == reflect.Int64:
		if isText {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%q is not a whole number", text)
			}
			return n, nil
		}
		if f, is := value.(float64); is && f == math.Trunc(f) {
			return int64(f), nil
		}
		if !reflect.ValueOf(value).CanInt() {
			return nil, fmt.Errorf("%s is not a whole number", shown(value))
		}
	case to.Kind() == reflect.Float64 && isText:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", text)
		}
		return n, nil
	case to.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s is neither true nor false", shown(value))
		}
		return b, nil
	case to.Kind() == reflect.String:
		return nil, fmt.Errorf("%s is not a text: put a number or a date in quotes", shown(value))
	}
	return value, nil
}

// shown returns a value as messages print it.
func shown(value any) string {
	if text, is := value.(string); is {
		return fmt.Sprintf("%.80q", text)
	}
	return fmt.Sprintf("%.80s", fmt.Sprint(value))
}
