package compose

import (
	"encoding/json"
	"fmt"
	"io"
)

// Request is a conversion by another program: the arguments of Compose.
type Request struct {
	// File is the path of the Compose file, Task the name of the unit and the task.
	File, Task string
	// Source is the text of the file.
	Source []byte
	// Variables are the values for ${NAME}; they may be secrets.
	Variables map[string]string
	// Shell are those of Variables that only the environment has, and no file.
	Shell map[string]bool
	// Profiles choose services, as --profile of Compose does; with none of them COMPOSE_PROFILES does. Services without a
	// profile are always converted.
	Profiles []string
	// Override is the path of a file that is merged over it; empty for none.
	Override string
	// Output is the directory in which the result is written.
	Output string
	// Stack: the result is a StackResult.
	Stack bool
}

// Serve reads a ComposeRequest, converts the file and writes the Result, both in JSON. An
// error is for the user to read.
func Serve(in io.Reader, out io.Writer, load Loader) error {
	var r Request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("read what is to be converted: %w", err)
	}
	o := Options{
		Load: load, Profiles: r.Profiles, Override: r.Override, Output: r.Output, Shell: r.Shell,
		Lookup: func(name string) (string, bool) { v, ok := r.Variables[name]; return v, ok },
	}
	var result any
	var err error
	if r.Stack {
		result, err = ConvertStack(r.File, r.Task, r.Source, o)
	} else {
		result, err = Convert(r.File, r.Task, r.Source, o)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}
