package taskdef

import "testing"

func TestDigestIsThatOfWhatADocumentSays(t *testing.T) {
	t.Parallel()
	digest := func(src string) string {
		d, err := Digest("f", []byte(src))
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		return d
	}
	same := digest(`{"family": "f", "containerDefinitions": [{"name": "a", "cpu": 1}]}`)
	for _, src := range []string{
		`{"containerDefinitions":[{"cpu":1,"name":"a"}],"family":"f"}`,
		`{"family": "f", "volumes": null, "containerDefinitions": [{"name": "a", "cpu": 1}]}`,
		"family: f\ncontainerDefinitions:\n- name: a # the first\n  cpu: 1\n",
	} {
		if digest(src) != same {
			t.Errorf("%s has another digest", src)
		}
	}
	for _, src := range []string{
		`{"family": "g", "containerDefinitions": [{"name": "a", "cpu": 1}]}`,
		`{"family": "f", "containerDefinitions": [{"name": "a", "cpu": 2}]}`,
		`{"family": "f", "containerDefinitions": [{"name": "a"}, {"cpu": 1}]}`,
		`{"family": "f", "containerDefinitions": {"name": "a", "cpu": 1}}`,
	} {
		if digest(src) == same {
			t.Errorf("%s has the same digest", src)
		}
	}
	if digest(`{"a": ["b", "c"]}`) == digest(`{"a": ["bc"]}`) || digest(`{"ab": "c"}`) == digest(`{"a": "bc"}`) {
		t.Error("parts run into each other")
	}
	if _, err := Digest("f", []byte("{")); err == nil {
		t.Error("text that cannot be read has a digest")
	}
}
