package strictdoc

import (
	"strings"

	"github.com/podtask/podtask/pkg/taskdef"
)

// InvalidError is a document that cannot be used, with all that is wrong in it.
type InvalidError struct {
	// Kind is what the file should be, such as "lockfile".
	Kind, File string
	Problems   []taskdef.Problem // never empty
	Fix        string            // for all of them; may be empty
}

func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString(e.File + " is not a valid " + e.Kind + ":")
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	if e.Fix != "" {
		b.WriteString("\n" + e.Fix)
	}
	return b.String()
}
