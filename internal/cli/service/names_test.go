package service

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/pkg/api"
)

func TestNamesAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]api.ServiceName{
		"orders":                {Name: "orders"},
		"orders:8080":           {Name: "orders", Port: 8080},
		"orders.shop=app:80":    {Name: "orders.shop", ContainerName: "app", ContainerPort: 80},
		"orders:8080=app:80":    {Name: "orders", Port: 8080, ContainerName: "app", ContainerPort: 80},
		"orders:8080=http-port": {Name: "orders", Port: 8080, PortName: "http-port"},
	} {
		got, err := parseName(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	for text, want := range map[string]string{"": "name is missing", ":80": "name is missing", "a:x": `"x" is not a port`, "a:0": "1 to 65535", "a=": "container is missing", "a=b:70000": "70000"} {
		if _, err := parseNames([]string{text}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "as in") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if none, err := parseNames([]string{"none"}); none == nil || len(none) > 0 || err != nil {
		t.Errorf("%v %v", none, err)
	}
}

func FuzzName(f *testing.F) {
	f.Add("orders:8080=app:80")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseName(text); err == nil && n.Name == "" {
			t.Errorf("%q has no name", text)
		}
	})
}
