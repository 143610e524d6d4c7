package composecall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/define/convert"
	"github.com/podtask/podtask/internal/define/convert/compose"
)

// A Compose file whose members multiply in the library that reads it ends in an error that names it, in bounded time and memory.
func TestAFileThatMultipliesIsGivenUp(t *testing.T) {
	t.Parallel()
	for want, script := range map[string]string{
		"shop/compose.yaml: to read it takes more than 100ms: look for members that multiply": "exec sleep 1000",
		"shop/compose.yaml: to read it takes more than 1024 MiB of memory":                    "echo 'fatal error: runtime: out of memory' >&2; exit 2",
	} {
		program := filepath.Join(t.TempDir(), Program)
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is executed
			t.Fatal(err)
		}
		c := Caller{Find: func(string) (string, error) { return program, nil }, Environ: os.Environ}
		if strings.HasPrefix(script, "exec sleep") {
			c.Limit = 100 * time.Millisecond
		}
		var r convert.Result
		if err := c.Convert(t.Context(), compose.Request{File: "shop/compose.yaml"}, &r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", script, err)
		}
	}
}
