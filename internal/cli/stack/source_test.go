package stack

import (
	"errors"
	"testing"

	"github.com/podtask/podtask/internal/define/stackfile"
)

// The order of a file is judged although the file has other problems.
func TestOrderProblemsOfAFileWithOthers(t *testing.T) {
	t.Parallel()
	f, problems := stackfile.Parse("stack.yaml", []byte(`members:
  db: {file: db.json}
  web: {file: web.json, count: x, after: {db: healthy, nope: started}}
  a: {file: a.json, after: [b]}
  b: {file: b.json, job: true, after: {a: completed}}
`))
	if len(problems) != 1 {
		t.Fatalf("%v", problems)
	}
	const want = `stack.yaml:3: web waits for nope, which is not in the stack
stack.yaml:5: b waits for a to complete, and that is a service, which never ends
stack.yaml:4: a → b → a wait for each other in a circle: none of them could be first`
	if got := errors.Join(orderProblems("stack.yaml", f.Members)...); got == nil || got.Error() != want {
		t.Errorf("%v", got)
	}
}
