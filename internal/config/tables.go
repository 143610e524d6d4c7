package config

import (
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// NotifyTable is the name of the tables that select notices and their receivers: [[notify]].
const NotifyTable = "notify"

// partTables are tables that a part reads, once for each rule. The part checks their members.
var partTables = []string{NotifyTable}

func isPartTable(name string) bool { return slices.Contains(partTables, name) }

// Table is one table of a file of which there may be several: [[NAME]].
type Table struct {
	File    string
	Line    int
	Members []Member
}

// Member is a key of a Table. Value is a string, int64, float64, bool, []any or map[string]any.
type Member struct {
	Name  string
	Line  int
	Value any
}

// Tables returns all tables of a name, those of the host's files first. The error is an *InvalidError with all
// problems of the files, members of these tables excepted.
func Tables(src Source, name string) ([]Table, error) {
	var all []Table
	files, problems := src.files()
	for _, file := range files {
		bad := Default().readFile(file)
		problems = append(problems, bad...)
		if text, err := readText(file); err == nil && len(bad) == 0 {
			all = append(all, tablesOf(text, file, name)...)
		}
	}
	return all, invalid(problems)
}

// tablesOf returns the tables of a file that has no problems.
func tablesOf(text []byte, file, name string) (all []Table) {
	var values map[string]any
	if toml.Unmarshal(text, &values) != nil {
		return nil
	}
	list, _ := values[name].([]any)
	var p unstable.Parser
	p.Reset(text)
	line, seen, within := 1, 0, false
	for p.NextExpression() {
		node := p.Expression()
		var path []string
		for it := node.Key(); it.Next(); {
			path = append(path, string(it.Node().Data))
			for at := int(it.Node().Raw.Offset); seen < at; seen++ {
				if text[seen] == '\n' {
					line++
				}
			}
		}
		switch key := strings.Join(path, "."); {
		case node.Kind == unstable.ArrayTable && key == name && len(all) < len(list):
			all, within = append(all, Table{File: file, Line: line}), true
		case node.Kind == unstable.ArrayTable || node.Kind == unstable.Table:
			within = false
		case node.Kind == unstable.KeyValue && within:
			members, _ := list[len(all)-1].(map[string]any)
			t := &all[len(all)-1]
			t.Members = append(t.Members, Member{Name: path[0], Line: line, Value: members[path[0]]})
		}
	}
	return all
}
