package cli

import (
	"context"
	"os"
	"testing"

	"github.com/podtask/podtask/internal/cli/importer"
	"github.com/podtask/podtask/internal/parts"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"podtask": func() { os.Exit(Main(context.Background(), os.Args, "", parts.Build())) }, importer.ComposeProgram: serveCompose})
}
