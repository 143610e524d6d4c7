package registrytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// mediaSchema1 is Docker's oldest kind of manifest, without a signature.
const mediaSchema1 = "application/vnd.docker.distribution.manifest.v1+json"

// PushSchema1 is Push with a manifest of Docker's schema 1, as registries had it before
// 2016: what is the configuration elsewhere is in the manifest. Podman still pulls it.
func (r *Registry) PushSchema1(name string, img v1.Image) error {
	repository, tag := splitName(name)
	raw, err := schema1(repository, tag, img)
	if err != nil {
		return fmt.Errorf("push %s: %w", name, err)
	}
	layers, err := img.Layers()
	if err != nil {
		return fmt.Errorf("push %s: %w", name, err)
	}
	for _, layer := range layers {
		if err := r.putBlob(repository, layer); err != nil {
			return fmt.Errorf("push %s: %w", name, err)
		}
	}
	return r.store(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaSchema1, bytes.NewReader(raw))
}

// schema1 lists the layers of an image from the last to the first; the last has the
// configuration beside it, each of the others the id of the one below.
func schema1(repository, tag string, img v1.Image) ([]byte, error) {
	type obj = map[string]any
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	var blobs, history []obj
	for i, layer := range layers {
		digest, err := digestOf(layer)
		if err != nil {
			return nil, err
		}
		compat := obj{"id": fmt.Sprintf("%064x", i+1), "created": file.Created.Time, "os": file.OS, "architecture": file.Architecture}
		if i > 0 {
			compat["parent"] = fmt.Sprintf("%064x", i)
		}
		if i == len(layers)-1 {
			compat["config"] = file.Config
		}
		text, err := json.Marshal(compat)
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, obj{"blobSum": digest})
		history = append(history, obj{"v1Compatibility": string(text)})
	}
	slices.Reverse(blobs)
	slices.Reverse(history)
	return json.Marshal(obj{
		"schemaVersion": 1, "name": repository, "tag": tag, "architecture": file.Architecture,
		"fsLayers": blobs, "history": history,
	})
}
