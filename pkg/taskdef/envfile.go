package taskdef

import (
	"fmt"
	"path"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// EnvironmentFile is a file of variables, one NAME=VALUE a line.
type EnvironmentFile struct {
	// ValueFrom is the text of the document.
	ValueFrom string `json:"valueFrom"`
	// Path is the file on this host, absolute wherever the place of the document
	// is known. It is empty for an object of S3 that Source answers.
	Path string `json:"path,omitempty"`
	// Source is the place on this host of an object of S3 that is not a file by itself, as in SecretValue. An object
	// with neither is named by Report.Needs.
	Source string `json:"source,omitempty"`
}

// s3ARN is the ARN of an object.
var s3ARN = lazy.MustCompile(`^arn:aws[a-z-]*:s3:::[^/]+/.+`)

const maxEnvFiles = 10

func decodeEnvironmentFiles(c cursor) []EnvironmentFile {
	var files []EnvironmentFile
	for _, item := range c.list(`write a list of {"type": "s3", "value": ...}`) {
		item.want(doctree.Object, `write {"type": "s3", "value": ...}`)
		if kind := item.at("type"); kind.str() != "s3" && kind.str() != "" {
			kind.wrong("type cannot be "+quote(kind.node.Text), `use "s3", for a local path too`)
		}
		files = append(files, decodeEnvironmentFile(item.at("value")))
	}
	return files
}

// decodeEnvironmentFile decodes the value of a file, and finds the file.
func decodeEnvironmentFile(c cursor) EnvironmentFile {
	f, s := EnvironmentFile{ValueFrom: c.str()}, c.p.settings
	if f.ValueFrom == "" {
		return f
	}
	if s3ARN.MatchString(f.ValueFrom) {
		found, ok := lookUp(c, refs.File, refs.OfObject(f.ValueFrom))
		if file, is := strings.CutPrefix(found.Source, "file:"); ok && is {
			f.Path = file
		} else {
			f.Source = found.Source
		}
		return f
	}
	f.Path = strings.TrimPrefix(f.ValueFrom, "file://")
	if s.Dir != "" && !path.IsAbs(f.Path) {
		f.Path = path.Join(s.Dir, f.Path)
	}
	return f
}

func checkEnvironmentFiles(r rules, files []EnvironmentFile) {
	in := r.in("environmentFiles")
	in.require(len(files) <= maxEnvFiles, "", "there are %d environment files, more than %d", len(files), maxEnvFiles)
	for i, f := range files {
		at := in.item(i).in("value")
		switch remote := s3ARN.MatchString(f.ValueFrom); {
		case f.ValueFrom == "":
			at.require(false, "name the file", "value is missing")
		case remote && !strings.HasSuffix(f.ValueFrom, ".env"):
			at.require(false, "", "the name of an environment file on S3 ends in .env")
		case f.Path == "" && f.Source == "" && remote:
			needRule(at, "--map-env-file "+shellWord(f.ValueFrom)+"=PATH", refs.File, f.ValueFrom, fmt.Sprintf("the environment file %s is on S3", quote(f.ValueFrom)))
		default:
			at.require(f.Path != "" || f.Source != "", "name the file", "the environment file has no path")
		}
	}
}
