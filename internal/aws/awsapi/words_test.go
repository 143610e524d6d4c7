package awsapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// noWord is in no list of words of the SDK.
const noWord = "NO_SUCH_WORD"

// wordsOf calls fn for each member of a request whose type in the SDK is a list of words, with another word in its place. Members of
// the first level that the request does not have are added.
func wordsOf(path string, v any, shape reflect.Type, fn func(path string)) {
	for shape.Kind() == reflect.Pointer {
		shape = shape.Elem()
	}
	switch v := v.(type) {
	case []any:
		for i := range v {
			wordsIn(fmt.Sprintf("%s[%d]", path, i), v[i], shape.Elem(), func(x any) { v[i] = x }, fn)
		}
	case map[string]any:
		if shape.Kind() != reflect.Struct {
			return
		}
		for i := range shape.NumField() {
			f := shape.Field(i)
			if !f.IsExported() {
				continue
			}
			name := memberOf(shape, f)
			item, ok := v[name]
			if !ok && path != "" {
				continue
			}
			wordsIn(strings.TrimPrefix(path+"."+name, "."), item, f.Type, func(x any) {
				if x == nil {
					delete(v, name)
				} else {
					v[name] = x
				}
			}, fn)
		}
	}
}

// wordsIn is wordsOf for a value that set replaces.
func wordsIn(path string, v any, shape reflect.Type, set func(any), fn func(path string)) {
	element := shape
	if element.Kind() == reflect.Slice {
		element = element.Elem()
	}
	if _, ok := element.MethodByName("Values"); !ok || element.Kind() != reflect.String {
		wordsOf(path, v, shape, fn)
		return
	}
	wrong := any(noWord)
	if element != shape {
		wrong = []any{noWord}
	}
	set(wrong)
	fn(path)
	set(v)
}

// noEffect are members of which a warning says that they have no effect.
var noEffect = []string{"RegisterTaskDefinition proxyConfiguration.type"}

// A word that is in no list of the SDK's is refused wherever a request can have one: it would be dropped in silence.
func TestWordsThatTheSDKDoesNotHaveAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.prepareTrips()
	sdk, seen := answerable(), make(map[string]bool)
	for name, bodies := range bodiesOfAll() {
		operation := servicesOfTargets.Replace(name)
		for _, text := range bodies {
			var body map[string]any
			if err := json.Unmarshal([]byte(text), &body); err != nil {
				t.Fatal(err)
			}
			delete(body, "clientToken")
			wordsOf("", body, sdk[operation].input, func(path string) {
				if body["serviceName"] != nil {
					body["serviceName"] = fmt.Sprintf("word%d", len(seen))
				}
				wrong, err := json.Marshal(body)
				if err != nil {
					t.Fatal(err)
				}
				place := operation + " " + anIndex.ReplaceAllString(path, "[]")
				seen[place] = true
				if status, answer := w.post(name, string(wrong)); status == 200 && !slices.Contains(noEffect, place) {
					t.Errorf("%s is %s: %d %s", place, noWord, status, answer)
				}
			})
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d places for words: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	}
}

// bodiesOfAll returns the requests of all tests by operation.
func bodiesOfAll() map[string][]string {
	all := make(map[string][]string)
	for _, r := range requests {
		all[r.name] = append(all[r.name], r.body)
	}
	for _, r := range trips {
		all[r.operation] = append(all[r.operation], r.body)
	}
	return all
}
