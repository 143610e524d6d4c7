package importer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/podtask/podtask/internal/define/convert"
)

// ComposeProgram converts Compose files. It is not linked here, because the library that reads them
// would initialize in every command.
const ComposeProgram = "podtask-compose"

// compose converts a Compose file with podtask-compose.
func (i importer) compose(ctx context.Context, r convert.ComposeRequest) (convert.Result, error) {
	path, err := i.findProgram(ComposeProgram)
	if err != nil {
		return convert.Result{}, err
	}
	request, err := json.Marshal(r)
	if err != nil {
		return convert.Result{}, err
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = i.environ(), bytes.NewReader(request), &out, &problems
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 1 && problems.Len() > 0 {
			return convert.Result{}, errors.New(strings.TrimSpace(problems.String()))
		}
		return convert.Result{}, fmt.Errorf("execute %s: %w", path, err)
	}
	var result convert.Result
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return convert.Result{}, fmt.Errorf("read what %s has converted: %w", path, err)
	}
	return result, nil
}
