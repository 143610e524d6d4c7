package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// statement is an in-toto statement, version 1, with SLSA provenance, version 1: what a release was made of.
// Its fields are those of in-toto.io/Statement/v1 and slsa.dev/provenance/v1.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

// resource is a file, a commit or a module, with its digests: sha256, gitCommit, or dirHash, which is the sum of go.sum
// in hexadecimal.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// The page that says what the type of build and the builder are: the maintainer who signs, on a machine of his own.
const provenancePage = "https://github.com/podtask/podtask/blob/main/docs/releases.md"

// writeProvenance writes the statement about the files of a release, which has the lists of modules of its architectures.
// COMMIT is the commit. It has no time and nothing of this machine, so that it is the same in each build.
func (b build) writeProvenance(dir string) error {
	commit := os.Getenv("COMMIT")
	if _, err := hex.DecodeString(commit); err != nil || len(commit) < 40 {
		return fmt.Errorf("COMMIT %q is not the hash of a commit", commit)
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	name := fmt.Sprintf("podtask-%s.provenance.json", b.bare())
	var err error
	if s.Subject, err = subjects(dir, name); err != nil {
		return err
	}
	source := "git+https://github.com/podtask/podtask@refs/tags/" + b.version
	d := &s.Predicate.BuildDefinition
	d.BuildType = provenancePage + "#provenance"
	d.ExternalParameters = map[string]string{"source": source, "command": "hack/dist release"}
	d.InternalParameters = map[string]string{"packager": runtime.Version()}
	d.ResolvedDependencies = []resource{{URI: source, Digest: map[string]string{"gitCommit": commit}}}
	modules, err := moduleResources(dir)
	if err != nil {
		return err
	}
	d.ResolvedDependencies = append(d.ResolvedDependencies, modules...)
	s.Predicate.RunDetails.Builder.ID = provenancePage + "#the-builder"
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644)
}

// subjects returns the files in a directory but for the checksums and those named.
func subjects(dir string, but string) ([]resource, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []resource
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" || e.Name() == but || !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, resource{Name: e.Name(), Digest: map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256(data))}})
	}
	return all, nil
}

// moduleResources returns Go and the modules in the lists of modules of a directory, each once.
func moduleResources(dir string) ([]resource, error) {
	lists, err := filepath.Glob(filepath.Join(dir, "*.cdx.json"))
	if err != nil || len(lists) == 0 {
		return nil, fmt.Errorf("%s has no lists of modules: %w", dir, err)
	}
	var all []resource
	seen := make(map[string]bool)
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		var bom cyclonedx.BOM
		if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		for _, c := range *bom.Components {
			if seen[c.PackageURL] {
				continue
			}
			seen[c.PackageURL] = true
			r := resource{URI: c.PackageURL}
			if c.Properties != nil { // Go itself has none
				sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix((*c.Properties)[0].Value, "h1:"))
				if err != nil || len(sum) != sha256.Size {
					return nil, fmt.Errorf("%s: %s has the checksum %q", list, c.PackageURL, (*c.Properties)[0].Value)
				}
				r.Digest = map[string]string{"dirHash": hex.EncodeToString(sum)}
			}
			all = append(all, r)
		}
	}
	return all, nil
}
