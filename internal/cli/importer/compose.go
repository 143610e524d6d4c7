package importer

import (
	"context"

	"github.com/podtask/podtask/internal/define/composecall"
	"github.com/podtask/podtask/internal/define/convert"
)

// ComposeProgram converts Compose files.
const ComposeProgram = composecall.Program

func (i importer) caller() composecall.Caller {
	return composecall.Caller{Find: i.findProgram, Environ: i.environ}
}

// compose converts a Compose file with podtask-compose.
func (i importer) compose(ctx context.Context, r convert.ComposeRequest) (result convert.Result, err error) {
	return result, i.caller().Convert(ctx, r, &result)
}
