// podtask-compose converts Compose files for podtask import, which executes it. It is a separate
// program because the library that reads Compose files takes milliseconds to initialize, which would
// slow down every podtask command.
//
// Standard input is a compose.Request, standard output a convert.Result, both in JSON. The
// exit code of a failure is 1, and standard error says why.
package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/internal/define/composecall"
	"github.com/podtask/podtask/internal/define/composefile"
	"github.com/podtask/podtask/internal/define/convert/compose"
)

func main() {
	limit(composecall.MaxMemory)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// limit limits the memory of this process, if the system can.
func limit(bytes uint64) {
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes})
}

func run(args []string, in io.Reader, out, problems io.Writer) int {
	if len(args) > 0 {
		fmt.Fprintln(problems, "podtask import executes this program; it takes no arguments")
		return 1
	}
	if err := compose.Serve(in, out, composefile.Load); err != nil {
		fmt.Fprintln(problems, err)
		return 1
	}
	return 0
}
