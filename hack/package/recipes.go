package main

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed recipes
var recipeTexts embed.FS

// recipeFiles are the recipes with which others package a release, and their paths below recipes/ of a release.
var recipeFiles = map[string]string{
	"PKGBUILD": "aur/PKGBUILD", "SRCINFO": "aur/.SRCINFO", "podtask.rb": "homebrew/podtask.rb",
	"Containerfile": "container/Containerfile", "catalog.json": "schemastore/catalog.json",
	"PKGBUILD-source": "arch/PKGBUILD", "podtask.spec": "fedora/podtask.spec", "podtask.nix": "nix/podtask.nix",
}

// recipes writes the recipes of a release, with the version and the checksums of its tarballs and of its
// source, which a directory has.
func (b build) recipes(dir string) error {
	v := struct {
		Version, ArchVersion, RPMVersion, RPMDate, Source string
		Sums                                              map[string]string
	}{
		Version: b.bare(), ArchVersion: strings.ReplaceAll(b.bare(), "-", "_"), RPMVersion: b.packageVersion(),
		RPMDate: b.date.Format("Mon Jan 02 2006"), Sums: map[string]string{},
	}
	source, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("podtask_%s.orig.tar.xz", b.packageVersion())))
	if err != nil {
		return fmt.Errorf("the recipes need the source: %w", err)
	}
	v.Source = fmt.Sprintf("%x", sha256.Sum256(source))
	for _, arch := range []string{"amd64", "arm64"} {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("podtask-%s-linux-%s.tar.gz", b.bare(), arch)))
		if err != nil {
			return fmt.Errorf("the recipes need the tarball of each architecture: %w", err)
		}
		v.Sums[arch] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	for name, to := range recipeFiles {
		text, err := template.New(name).Option("missingkey=error").ParseFS(recipeTexts, "recipes/"+name)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := text.ExecuteTemplate(&out, name, v); err != nil {
			return err
		}
		to = filepath.Join(dir, "recipes", to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
