package testfile

import (
	"reflect"

	"github.com/podtask/podtask/internal/lazy"
)

var placeholder = lazy.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// expand returns a copy of a test in which ${NAME} is replaced by its value. A name without a value stays as it is.
func expand(t Test, vars map[string]string) Test {
	out := reflect.New(reflect.TypeOf(t)).Elem()
	replaceIn(out, reflect.ValueOf(t), func(text string) string {
		return placeholder.ReplaceAllStringFunc(text, func(whole string) string {
			if value, ok := vars[whole[2:len(whole)-1]]; ok {
				return value
			}
			return whole
		})
	})
	return out.Interface().(Test)
}

// replaceIn copies a value into another of its type, with all texts replaced.
func replaceIn(to, from reflect.Value, replace func(string) string) {
	switch from.Kind() {
	case reflect.String:
		to.SetString(replace(from.String()))
	case reflect.Struct:
		for i := range from.NumField() {
			replaceIn(to.Field(i), from.Field(i), replace)
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			replaceIn(to.Elem(), from.Elem(), replace)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				replaceIn(to.Index(i), from.Index(i), replace)
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMap(from.Type()))
			for _, key := range from.MapKeys() {
				v := reflect.New(from.Type().Elem()).Elem()
				replaceIn(v, from.MapIndex(key), replace)
				to.SetMapIndex(key, v)
			}
		}
	default:
		to.Set(from)
	}
}
