package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/term"
)

// Level is the severity of a finding, as in SARIF.
type Level string

// The levels, the gravest first.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// Finding is a problem in a file. Line and Column count from 1; 0 is unknown.
type Finding struct {
	Level        Level
	File         string
	Line, Column int
	// Rule names the kind of finding.
	Rule    string
	Message string
}

// WriteGitHub writes findings as workflow commands, which GitHub shows beside the lines of a change.
func WriteGitHub(w io.Writer, findings []Finding) error {
	for _, f := range findings {
		command := string(f.Level)
		if f.Level == Note {
			command = "notice"
		}
		place := "file=" + property(f.File)
		if f.Line > 0 {
			place += fmt.Sprintf(",line=%d,col=%d", f.Line, max(f.Column, 1))
		}
		if _, err := fmt.Fprintf(w, "::%s %s,title=podtask::%s\n", command, place, data(f.Message)); err != nil {
			return err
		}
	}
	return nil
}

// data and property escape text as the runner of GitHub Actions expects it.
var (
	dataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func data(text string) string     { return dataEscapes.Replace(text) }
func property(text string) string { return propertyEscapes.Replace(text) }

// WriteSARIF writes the findings of one run of the program as SARIF.
func WriteSARIF(w io.Writer, version string, findings []Finding) error {
	rules := []sarifRule{}
	results := []sarifResult{}
	for _, f := range findings {
		rule := sarifRule{ID: cmp.Or(f.Rule, "definition")}
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
		r := sarifResult{RuleID: rule.ID, Level: f.Level, Message: sarifText{f.Message}}
		place := sarifPlace{Artifact: sarifFile{filepath.ToSlash(f.File)}}
		if f.Line > 0 {
			place.Region = &sarifRegion{f.Line, max(f.Column, 1)}
		}
		r.Locations = []sarifLocation{{place}}
		results = append(results, r)
	}
	driver := sarifDriver{Name: "podtask", Version: version, Rules: rules}
	enc := json.NewEncoder(term.JSON(w))
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{Tool: sarifTool{driver}, Results: results}},
	})
}

// The members of SARIF 2.1.0 that are written.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     Level           `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPlace `json:"physicalLocation"`
	}
	sarifPlace struct {
		Artifact sarifFile    `json:"artifactLocation"`
		Region   *sarifRegion `json:"region,omitempty"`
	}
	sarifFile struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn"`
	}
)
