package config

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestImagesHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	got, err := ReadImages(func(string) string { return "" })
	want := Images{
		PullsAtOnce: 3, FirstByte: 5 * time.Minute, Idle: time.Minute, PullLimit: 2 * time.Hour,
		Cleanup: true, Interval: 30 * time.Minute, PerRound: 5, MinAge: 7 * 24 * time.Hour, MinFree: 2 << 30,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// A file, a variable and a flag all reach what reads the image keys, and so does each
// key: none is left out.
func TestEachImageKeyIsRead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("home/podtask/podtask.toml", "image-min-free = \"5g\"\nimage-exclude = \"a/*,b\"\nimage-cleanup = false\nimage-cleanup-interval = \"1h\"\nimage-cleanup-per-round = 7\n")
	p.env["PODTASK_PULL_IDLE"], p.env["PODTASK_PULL_FIRST_BYTE"], p.env["PODTASK_PULL_TIMEOUT"] = "2s", "3s", "4s"
	s, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	for flag, value := range map[string]string{"pulls-at-once": "9", "image-min-age": "1h"} {
		if err := s.SetFlag(flag, value); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadImages(s.Getenv(func(name string) string { return p.env[name] }))
	want := Images{
		PullsAtOnce: 9, FirstByte: 3 * time.Second, Idle: 2 * time.Second, PullLimit: 4 * time.Second,
		Interval: time.Hour, PerRound: 7, MinAge: time.Hour, Exclude: []string{"a/*", "b"}, MinFree: 5 << 30,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestMistakesInImageKeysAreFoundInFilesToo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := p.write("home/podtask/podtask.toml", "image-min-free = \"much\"\nimage-exclude = \"[\"\npull-idle = \"-1s\"\n")
	_, err := p.load()
	for _, want := range []string{file + ":1: image-min-free", file + ":2: image-exclude", file + ":3: pull-idle"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}
