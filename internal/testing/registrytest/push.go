package registrytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Push stores an image under name ("app:1"; without a tag :latest) and returns
// its digest. It goes past network, authentication, faults and log.
func (r *Registry) Push(name string, img v1.Image) (digest string, err error) {
	repository, tag := splitName(name)
	if err := r.storage.putImage(repository, tag, img); err != nil {
		return "", fmt.Errorf("push %s: %w", name, err)
	}
	return digestOf(img)
}

// PushIndex stores an index and its images under name and returns the index's digest.
func (r *Registry) PushIndex(name string, index v1.ImageIndex) (digest string, err error) {
	repository, tag := splitName(name)
	if err := r.storage.putIndex(repository, tag, index); err != nil {
		return "", fmt.Errorf("push %s: %w", name, err)
	}
	return digestOf(index)
}

func splitName(name string) (repository, tag string) {
	repository, tag, ok := strings.Cut(name, ":")
	if !ok {
		tag = "latest"
	}
	return repository, tag
}

func digestOf(d interface{ Digest() (v1.Hash, error) }) (string, error) {
	hash, err := d.Digest()
	return hash.String(), err
}

// storage holds images: go-containerregistry, without authentication, faults and log.
type storage struct{ http.Handler }

func (s storage) putIndex(repository, tag string, index v1.ImageIndex) error {
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, desc := range list.Manifests {
		img, err := index.Image(desc.Digest)
		if err != nil {
			return err
		}
		if err := s.putImage(repository, desc.Digest.String(), img); err != nil {
			return err
		}
	}
	return s.putManifest(repository, tag, index)
}

func (s storage) putImage(repository, target string, img v1.Image) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	config, err := partial.ConfigLayer(img)
	if err != nil {
		return err
	}
	for _, layer := range append(layers, config) {
		if err := s.putBlob(repository, layer); err != nil {
			return err
		}
	}
	return s.putManifest(repository, target, img)
}

func (s storage) putBlob(repository string, layer v1.Layer) error {
	digest, err := digestOf(layer)
	if err != nil {
		return err
	}
	body, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer body.Close()
	return s.store(http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+url.QueryEscape(digest), "application/octet-stream", body)
}

func (s storage) putManifest(repository, target string, m interface {
	RawManifest() ([]byte, error)
	MediaType() (types.MediaType, error)
}) error {
	raw, err := m.RawManifest()
	if err != nil {
		return err
	}
	mediaType, err := m.MediaType()
	if err != nil {
		return err
	}
	return s.store(http.MethodPut, "/v2/"+repository+"/manifests/"+target, string(mediaType), bytes.NewReader(raw))
}

// store makes one request to the storage, which must create something.
func (s storage) store(method, target, contentType string, body io.Reader) error {
	req := httptest.NewRequest(method, target, body)
	req.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: %d %s", method, req.URL.Path, answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	return nil
}

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
		if err := r.storage.putBlob(repository, layer); err != nil {
			return fmt.Errorf("push %s: %w", name, err)
		}
	}
	return r.storage.store(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaSchema1, bytes.NewReader(raw))
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
