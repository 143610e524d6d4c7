package taskdef

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
)

// modelWords returns the words of every enum of the ECS model below an input of
// RegisterTaskDefinition, by the path of the member that takes them.
func modelWords() map[string][]string {
	words := make(map[string][]string)
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer:
			walk(path, typ.Elem())
		case reflect.Slice:
			walk(path+"[]", typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				if f := typ.Field(i); f.IsExported() {
					walk(strings.TrimPrefix(path+"."+strings.ToLower(f.Name[:1])+f.Name[1:], "."), f.Type)
				}
			}
		case reflect.String:
			values, ok := typ.MethodByName("Values")
			if !ok {
				return
			}
			all := values.Func.Call([]reflect.Value{reflect.Zero(typ)})[0]
			for i := range all.Len() {
				words[path] = append(words[path], all.Index(i).String())
			}
		}
	}
	walk("", reflect.TypeFor[ecs.RegisterTaskDefinitionInput]())
	return words
}

// besides are the members that an object needs to be looked at.
var besides = map[string]string{inContainer + "ulimits[].name": `, "softLimit": 1, "hardLimit": 1`}

// enumProblem returns what Parse has against a word for the member at a path; empty for
// nothing.
func enumProblem(path, word string) string {
	src, pointer := with(path, `"`+word+`"`+besides[path])
	if list, ok := strings.CutSuffix(path, "[]"); ok {
		src, pointer = with(list, `["`+word+`"]`)
		pointer += "/0"
	}
	_, _, err := Parse("f", src)
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		return ""
	}
	for _, p := range invalid.Problems {
		if p.Pointer == pointer || strings.HasPrefix(pointer, p.Pointer+"/") && strings.Contains(p.Message, "not supported") {
			return p.Message
		}
	}
	return ""
}

// TestEnumsAreThoseOfTheModel gives each member that takes a word each word of the
// ECS model, and one that is none.
func TestEnumsAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	all := modelWords()
	if len(all) < 15 {
		t.Fatalf("the model has the enums %v", all)
	}
	for path, words := range all {
		if root, _, _ := strings.Cut(path, "."); definitionTable.rows[root].answer == warned {
			continue // it has no effect, whatever it says
		}
		for _, word := range words {
			problem := enumProblem(path, word)
			if refused := refusedWord(path, word); (problem != "") != refused {
				t.Errorf("%s: %s: %q, refused on purpose: %v", path, word, problem, refused)
			}
		}
		if enumProblem(path, "nonsense") == "" {
			t.Errorf("%s takes any word", path)
		}
	}
}

// refusedWord reports words of the model that cannot be honoured here.
func refusedWord(path, word string) bool {
	if path == "trustedExecutionConfiguration.isolationMode" {
		return word != "SHARED"
	}
	if path == "containerDefinitions[].resourceRequirements[].type" {
		return word == "NeuronDevice"
	}
	return path == "runtimePlatform.operatingSystemFamily" && word != "LINUX"
}

// TestLimitsOfMembersWithoutEffect: ECS would refuse these, whatever becomes of them here.
func TestLimitsOfMembersWithoutEffect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ task, container, want string }{
		{``, `"linuxParameters": {"maxSwap": 1, "swappiness": 101}, "memory": 64,`, "/containerDefinitions/0/linuxParameters/swappiness"},
		{``, `"linuxParameters": {"maxSwap": 1, "swappiness": 100}, "memory": 64,`, ""},
		{``, `"logConfiguration": {"logDriver": "awslogs", "options": {"mode": "nonblocking"}},`, "/containerDefinitions/0/logConfiguration/options/mode"},
		{``, `"logConfiguration": {"logDriver": "awslogs", "options": {"mode": "${MODE}"}},`, ""},
		{`"volumes": [{"name": "a", "configuredAtLaunch": true}, {"name": "b", "configuredAtLaunch": true}],`, ``, "/volumes/1/configuredAtLaunch"},
		{`"volumes": [{"name": "a", "configuredAtLaunch": true}, {"name": "b", "configuredAtLaunch": false}],`, ``, ""},
	} {
		_, _, err := Parse("f", []byte(minimal(tt.task, tt.container)))
		var invalid *InvalidError
		var got []string
		if errors.As(err, &invalid) {
			got = pointers(invalid.Problems)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s%s: the problems are at %q, want %q: %v", tt.task, tt.container, got, tt.want, err)
		}
	}
}
