package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/taskdef"
)

func TestSecretMap(t *testing.T) {
	t.Parallel()
	got, err := parseSecretMap("/etc/x/map", "# ours\n\n/a = file:a\r\n/b=command:/bin/pass show =x\n/c=file:/abs\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"/a": "file:/etc/x/a", "/b": "command:/bin/pass show =x", "/c": "file:/abs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, says := range map[string]string{"/a": "/m:1: write ARN=SOURCE", "/a=x\n/a=y": "/m:2: \"/a\" is there already", "\n=x": "/m:2: write", "/a=vault:x": "/m:1: "} {
		if _, err := parseSecretMap("/m", text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func FuzzSecretMap(f *testing.F) {
	for _, text := range []string{"/a=env:A\n", "# c\n\narn:aws:ssm:r:1:parameter/x = file:x\r\n", "=", "a=b=c", "a=command:x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		known, err := parseSecretMap("/etc/m", text)
		for id, source := range known {
			if err != nil || id == "" || !taskdef.IsSecretSource(source) {
				t.Errorf("%q is %q, %v", id, source, err)
			}
		}
	})
}
