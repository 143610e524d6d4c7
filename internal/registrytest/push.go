package registrytest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Push stores an image under name ("app:1"; without a tag :latest) and returns
// its digest. It goes past network, authentication, faults and log.
func (r *Registry) Push(name string, img v1.Image) (digest string, err error) {
	repository, tag := splitName(name)
	if err := r.putImage(repository, tag, img); err != nil {
		return "", fmt.Errorf("push %s: %w", name, err)
	}
	return digestOf(img)
}

// PushIndex stores an index and its images under name and returns the index's digest.
func (r *Registry) PushIndex(name string, index v1.ImageIndex) (digest string, err error) {
	repository, tag := splitName(name)
	if err := r.putIndex(repository, tag, index); err != nil {
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

func (r *Registry) putIndex(repository, tag string, index v1.ImageIndex) error {
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, desc := range list.Manifests {
		img, err := index.Image(desc.Digest)
		if err != nil {
			return err
		}
		if err := r.putImage(repository, desc.Digest.String(), img); err != nil {
			return err
		}
	}
	return r.putManifest(repository, tag, index)
}

func (r *Registry) putImage(repository, target string, img v1.Image) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	config, err := partial.ConfigLayer(img)
	if err != nil {
		return err
	}
	for _, layer := range append(layers, config) {
		if err := r.putBlob(repository, layer); err != nil {
			return err
		}
	}
	return r.putManifest(repository, target, img)
}

func (r *Registry) putBlob(repository string, layer v1.Layer) error {
	digest, err := digestOf(layer)
	if err != nil {
		return err
	}
	body, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer body.Close()
	return r.store(http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+url.QueryEscape(digest), "application/octet-stream", body)
}

func (r *Registry) putManifest(repository, target string, m interface {
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
	return r.store(http.MethodPut, "/v2/"+repository+"/manifests/"+target, string(mediaType), bytes.NewReader(raw))
}

// store speaks to the storage directly.
func (r *Registry) store(method, target, contentType string, body io.Reader) error {
	req := httptest.NewRequest(method, target, body)
	req.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	r.storage.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: %d %s", method, req.URL.Path, answer.Code, strings.TrimSpace(answer.Body.String()))
	}
	return nil
}
