package taskdef_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

func TestAMinimumAgeThatHasNoEffectIsRefused(t *testing.T) {
	t.Parallel()
	const pinned = `"app@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
	for _, c := range []struct{ age, image, more, want string }{
		{"3d", `"app:1"`, "", ""},
		{"0", pinned, "", ""},
		{"3d", pinned, "", "f.json:2:29: "},
		{"3d", `"app:1"`, `, "versionConsistency": "disabled"`, "f.json:2:29: "},
		{"3 days", `"app:1"`, "", `"3 days" is not a time such as 36h, 3d or 2w`},
	} {
		text := "{\"family\": \"f\",\n\"x-podtask\": {\"minimumAge\": \"" + c.age + "\"}, \"containerDefinitions\": [{\"name\": \"a\", \"memory\": 64, \"image\": " + c.image + c.more + "}]}"
		task, _, err := taskdef.Settings{}.Parse("f.json", []byte(text))
		switch {
		case c.want == "" && err == nil:
			if task.Extensions.MinimumAge != c.age {
				t.Errorf("%s: %+v", text, task.Extensions)
			}
		case err == nil || c.want == "" || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAMinimumAgeOfOneRun(t *testing.T) {
	t.Parallel()
	text := `{"family": "f", "x-podtask": {"minimumAge": "3d"}, "containerDefinitions": [{"name": "a", "memory": 64, "image": "app:1"}]}`
	task, _, err := taskdef.Settings{}.Parse("f.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := task.Adjust(taskdef.Adjustments{MinimumAge: "1w"}); err != nil || got.Extensions.MinimumAge != "1w" {
		t.Errorf("%v, %v", got.Extensions, err)
	}
	const locked = "app:1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got, err := task.Adjust(taskdef.Adjustments{Images: map[string]string{"app:1": locked}}); err != nil || got.Extensions.MinimumAge != "" {
		t.Errorf("with a lockfile: %v, %v", got.Extensions, err)
	}
	if _, err := task.Adjust(taskdef.Adjustments{Images: map[string]string{"app:1": locked}, MinimumAge: "1w"}); !errors.As(err, new(*taskdef.InvalidError)) {
		t.Errorf("an age with a lockfile: %v", err)
	}
}
