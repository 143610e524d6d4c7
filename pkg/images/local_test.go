package images_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/podtask/podtask/pkg/images"
)

func TestLocalDigest(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	ref, err := images.ParseRef("registry.example.com/app:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		known []string
		want  string
		says  string // of an error
	}{
		{"built here", nil, "", ""},
		{"pulled by this name", []string{"registry.example.com/other@" + digest, "registry.example.com/app@" + digest}, digest, ""},
		{"pulled by another name only", []string{"docker.io/library/alpine@" + digest}, "", "docker.io/library/alpine"},
		{"a name that is no reference", []string{"<none>@<none>"}, "", ""},
	} {
		got, err := images.LocalDigest(ref, tt.known)
		var e *images.Error
		if got != tt.want || (err != nil) != (tt.says != "") || err != nil && (!errors.As(err, &e) || !strings.Contains(e.Error(), tt.says)) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.name, got, err, tt.want, tt.says)
		}
	}
}

func TestRunsOn(t *testing.T) {
	t.Parallel()
	handler := func(text string) fstest.MapFS {
		return fstest.MapFS{
			"proc/sys/fs/binfmt_misc/status":       {Data: []byte("enabled\n")},
			"proc/sys/fs/binfmt_misc/qemu-aarch64": {Data: []byte(text)},
		}
	}
	const good = "enabled\ninterpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\nflags: POCF\noffset 0\n"
	amd, arm := images.Platform{OS: "linux", Architecture: "amd64"}, images.Platform{OS: "linux", Architecture: "arm64"}
	for _, tt := range []struct {
		name       string
		root       fstest.MapFS
		host, want images.Platform
		emulator   string
		runs       bool
	}{
		{"the same", nil, amd, amd, "", true},
		{"not told", nil, amd, images.Platform{}, "", true},
		{"the older one of the family", nil, amd, images.Platform{OS: "linux", Architecture: "386"}, "", true},
		{"another one", fstest.MapFS{}, amd, arm, "", false},
		{"another system", handler(good), amd, images.Platform{OS: "windows", Architecture: "amd64"}, "", false},
		{"emulated", handler(good), amd, arm, "qemu-aarch64", true},
		{"an emulator that containers cannot open", handler(strings.Replace(good, "POCF", "OC", 1)), amd, arm, "", false},
		{"a disabled emulator", handler(strings.Replace(good, "enabled", "disabled", 1)), amd, arm, "", false},
		{"an emulator for the other direction", handler(good), arm, amd, "", false},
	} {
		emulator, err := images.RunsOn(tt.root, tt.host, tt.want)
		var e *images.Error
		if emulator != tt.emulator || (err == nil) != tt.runs || err != nil && (!errors.As(err, &e) || e.Class != images.WrongPlatform || e.Hint == "") {
			t.Errorf("%s: %q, %v", tt.name, emulator, err)
		}
	}
}
