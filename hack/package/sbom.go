package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// modules returns the modules in the programs of some parts, read from the programs themselves, and the version
// of Go.
func (b build) modules(of []string) (all []*debug.Module, goVersion string, err error) {
	seen := make(map[string]bool)
	var programs []string
	for _, part := range of {
		programs = append(programs, programsOf(part)...)
	}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(b.bin, program))
		if err != nil {
			return nil, "", err
		}
		goVersion = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if !seen[m.Path] {
				all = append(all, m)
			}
			seen[m.Path] = true
		}
	}
	if err := b.addSums(all); err != nil {
		return nil, "", err
	}
	slices.SortFunc(all, func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return all, strings.TrimPrefix(goVersion, "go"), nil
}

// addSums adds the checksums that a program built from vendored modules does not have, from go.sum.
func (b build) addSums(modules []*debug.Module) error {
	data, err := os.ReadFile(filepath.Join(b.root, "go.sum"))
	if err != nil {
		return err
	}
	sums := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 {
			sums[f[0]+"@"+f[1]] = f[2]
		}
	}
	for _, m := range modules {
		if m.Sum == "" {
			m.Sum = sums[m.Path+"@"+m.Version]
		}
	}
	return nil
}

// sbom lists the modules in the programs of some parts, in the format CycloneDX.
func (b build) sbom(of []string) ([]byte, error) {
	modules, goVersion, err := b.modules(of)
	if err != nil {
		return nil, err
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.date.Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeApplication, Name: "podtask", Version: b.bare(), BOMRef: "podtask",
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	components := []cyclonedx.Component{{Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: goVersion, PackageURL: "pkg:golang/std@" + goVersion}}
	for _, m := range modules {
		components = append(components, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: "pkg:golang/" + m.Path + "@" + m.Version,
			Properties: &[]cyclonedx.Property{{Name: "go.sum", Value: m.Sum}},
		})
	}
	bom.Components = &components
	var out bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
	return out.Bytes(), err
}
