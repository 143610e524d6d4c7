package define_test

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/define"
)

// An age that a request gives for images with digests is refused at the line of the image.
func TestAMinimumAgeOfARequestIsPlaced(t *testing.T) {
	t.Parallel()
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for name, text := range map[string]string{
		"web.json": "{\"family\": \"web\",\n\"containerDefinitions\": [{\"name\": \"app\", \"memory\": 64,\n  \"image\": \"app" + digest + "\"}]}",
		"web.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app,\n  image: app" + digest + "}]}\n",
	} {
		d, err := define.Reader{}.Read(define.Document{Name: name, Source: []byte(text)}, define.Changes{Options: map[string]string{"minimum-age": "3d"}})
		if err != nil || d.Err() == nil {
			t.Errorf("%s: %v, %v", name, err, d.Err())
			continue
		}
		line := map[string]string{"web.json": "web.json:3:", "web.yaml": "web.yaml:5:"}[name]
		for _, want := range []string{line, "--minimum-age: the minimum age 3d has no effect", "leave the flag out"} {
			if !strings.Contains(d.Err().Error(), want) {
				t.Errorf("%s: %q is not in %s", name, want, d.Err())
			}
		}
	}
	d, err := define.Reader{}.Read(define.Document{Name: "web.json", Source: []byte(`{"family": "web", "containerDefinitions": [{"name": "app", "memory": 64, "image": "app:1"}]}`)}, define.Changes{Options: map[string]string{"minimum-age": "36h"}})
	if err != nil || d.Err() != nil || d.Task.Extensions.MinimumAge != "36h0m0s" {
		t.Errorf("%v, %v, %+v", err, d.Err(), d.Task.Extensions)
	}
}
