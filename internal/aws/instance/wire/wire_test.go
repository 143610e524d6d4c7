package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// notInModel are members that the public model of ECS does not have (aws-sdk-go-v2/service/ecs, as in
// go.mod), and that amazon-ecs-agent 1.105.1 sends.
var notInModel = map[string]bool{"Register.clientToken": true, "Discover.zoneId": true}

// The bodies of calls have the members of the public model, with its types.
func TestCallsHaveTheMembersOfTheModel(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[Register](), reflect.TypeFor[ecs.RegisterContainerInstanceInput]()},
		{reflect.TypeFor[Registered](), reflect.TypeFor[ecs.RegisterContainerInstanceOutput]()},
		{reflect.TypeFor[Discover](), reflect.TypeFor[ecs.DiscoverPollEndpointInput]()},
		{reflect.TypeFor[Endpoints](), reflect.TypeFor[ecs.DiscoverPollEndpointOutput]()},
		{reflect.TypeFor[StateChange](), reflect.TypeFor[ecs.SubmitTaskStateChangeInput]()},
		{reflect.TypeFor[UpdateState](), reflect.TypeFor[ecs.UpdateContainerInstancesStateInput]()},
		{reflect.TypeFor[UpdatedState](), reflect.TypeFor[ecs.UpdateContainerInstancesStateOutput]()},
		{reflect.TypeFor[DescribeInstances](), reflect.TypeFor[ecs.DescribeContainerInstancesInput]()},
		{reflect.TypeFor[Deregister](), reflect.TypeFor[ecs.DeregisterContainerInstanceInput]()},
	} {
		compare(t, pair[0], pair[1])
	}
}

func compare(t *testing.T, ours, model reflect.Type) {
	t.Helper()
	for i := range ours.NumField() {
		f := ours.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := ours.Name() + "." + name
		m, found := model.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		if !found {
			if !notInModel[at] {
				t.Errorf("the model has no %s (%s)", at, model)
			}
			continue
		}
		if a, b := kindOf(f.Type), kindOf(m.Type); a != b {
			t.Errorf("%s is %s, and in the model %s", at, a, b)
		} else if a == "struct" {
			compare(t, element(f.Type), element(m.Type))
		}
	}
}

func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// kindOf is what a type is in JSON, of the elements for a list.
func kindOf(t reflect.Type) string {
	t = element(t)
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Float64:
		return "number"
	case reflect.Struct:
		if t == reflect.TypeFor[Time]() || t == reflect.TypeFor[time.Time]() {
			return "time"
		}
	}
	return t.Kind().String()
}

// A task has what the model's task definition has, where the names are the same.
func TestContainersHaveTheTypesOfTheModel(t *testing.T) {
	t.Parallel()
	own := map[string]string{"environment": "a map, not a list", "dependsOn": "", "secrets": "", "links": ""}
	ours, model := reflect.TypeFor[Container](), reflect.TypeFor[types.ContainerDefinition]()
	for i := range ours.NumField() {
		f := ours.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		m, found := model.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		if why, ok := own[name]; !found || ok && why != "" || f.Type.Kind() == reflect.Interface || element(f.Type) == reflect.TypeFor[string]() && kindOf(m.Type) == "struct" {
			continue
		}
		if a, b := kindOf(f.Type), kindOf(m.Type); a != b {
			t.Errorf("%s is %s, and in the model %s", name, a, b)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1795657928788)
	text, err := json.Marshal(At(at))
	if err != nil || string(text) != "1795657928.788" {
		t.Errorf("%s, %v", text, err)
	}
	var back Time
	if err := json.Unmarshal(text, &back); err != nil || !back.Equal(at) {
		t.Errorf("%s, %v", back, err)
	}
	if At(time.Time{}) != nil {
		t.Error("no time is a time")
	}
	for _, bad := range []string{`"x"`, "1e300", "-1e300"} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is %s", bad, back)
		}
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	t.Parallel()
	c := RoleCredentials{AccessKeyID: "A", SecretAccessKey: "hush", SessionToken: "hush"}
	for _, text := range []string{c.String(), c.GoString()} {
		if strings.Contains(text, "hush") {
			t.Error(text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"type":"PayloadMessage","message":{"tasks":[{"arn":"a","containers":[{"entryPoint":[]}]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := Decode(text)
		if err != nil {
			return
		}
		var p Payload
		if json.Unmarshal(frame.Message, &p) != nil {
			return
		}
		for _, raw := range p.Tasks {
			var task Task
			_ = json.Unmarshal(raw, &task) // it must not panic
		}
	})
}
