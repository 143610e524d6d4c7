package importer

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What the aws command prints is bounded also where it is copied by way of another interface.
func TestAnswersOfAWSAreBounded(t *testing.T) {
	t.Parallel()
	out := &limited{most: 1000}
	cmd := exec.CommandContext(t.Context(), "head", "-c", "1000000", "/dev/zero")
	cmd.Env, cmd.Stdout = os.Environ(), out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !out.cut || out.buffer.Len() != 1000 || strings.Trim(out.buffer.String(), "\x00") != "" {
		t.Errorf("%d bytes are kept, cut: %v", out.buffer.Len(), out.cut)
	}
}
