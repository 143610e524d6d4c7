// Package hostile fills values with text that steers terminals and browsers, and finds what of it reaches their
// output.
package hostile

import (
	"reflect"
	"strings"
	"time"
	"unicode"
)

// Text has escapes of terminals, characters that reorder text, and HTML.
const Text = "x\x1b]0;t\a\x1b[31m\u009b2J\r\n\u202egpj\u2066<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"

// Fill sets all empty texts of what v points to, and those of its parts, to Text. Lists and maps are filled where
// they have entries.
func Fill(v any) { fill(reflect.ValueOf(v)) }

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.String:
		if v.CanSet() && v.Len() == 0 {
			v.SetString(Text)
		}
	}
}

// FillNumbers sets all numbers, times and durations of what v points to, and those of its parts, to the greatest ones; with
// least, to the least ones.
func FillNumbers(v any, least bool) { fillNumbers(reflect.ValueOf(v), least) }

func fillNumbers(v reflect.Value, least bool) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		year := map[bool]int{false: 9999, true: 1}[least]
		v.Set(reflect.ValueOf(time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			fillNumbers(v.Elem(), least)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillNumbers(v.Field(i), least)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			fillNumbers(v.Index(i), least)
		}
	default:
		fillNumber(v, least)
	}
}

// fillNumber sets one number: half of the greatest, so that a sum of two is one too.
func fillNumber(v reflect.Value, least bool) {
	switch {
	case v.CanInt():
		most := int64(1)<<(v.Type().Bits()-2) - 1
		if least {
			most = -most
		}
		v.SetInt(most)
	case v.CanUint() && !least:
		v.SetUint(1<<(v.Type().Bits()-1) - 1)
	case v.CanFloat():
		v.SetFloat(map[bool]float64{false: 1e300, true: -1e300}[least])
	}
}

// Steers returns the first character that a terminal would act on, besides ends of lines; 0 for none.
func Steers(output string) rune {
	for _, r := range output {
		if r != '\n' && (unicode.IsControl(r) || strings.ContainsRune("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029", r)) {
			return r
		}
	}
	return 0
}
