package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/pkg/taskdef"
)

// registerImages registers the definition of a service with other images and returns its FAMILY:REVISION.
// An empty definition stands for that which the service has.
func (k serviceCall) registerImages(ctx context.Context, name, definition string, images []string) (string, error) {
	if definition == "" {
		s, err := k.client.Service(ctx, name)
		if err != nil {
			return "", k.reportError("update", name, err)
		}
		definition = s.TaskDefinition
	}
	definitions, err := k.registry.open(k.c)
	if err != nil {
		return "", err
	}
	ref, err := catalog.ParseRef(definition)
	if err != nil {
		return "", err
	}
	r, source, err := definitions.catalog.Find(ref)
	if err != nil {
		return "", fmt.Errorf("--image: %w", err)
	}
	doc := define.Registered(r, source)
	data, err := taskdef.ToJSON(doc.Name, doc.Source)
	if err == nil {
		doc.Source, err = withImages(data, images)
	}
	if err != nil {
		return "", fmt.Errorf("--image: %s: %w", definition, err)
	}
	doc.Name = r.File
	d, err := definitions.definition()
	if err != nil {
		return "", err
	}
	registered, err := definitions.register(d, doc)
	if err == nil && registered == "" {
		err = command.ExitStatus(command.ExitOwnFailure)
	}
	return registered, err
}

// withImages returns an ECS definition with other images: each word is IMAGE or CONTAINER=IMAGE. An
// IMAGE alone is for the only container, or for the one whose image is of the same repository.
func withImages(definition []byte, words []string) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(definition, &doc); err != nil {
		return nil, err
	}
	task := doc
	if inner, ok := doc["taskDefinition"].(map[string]any); ok {
		task = inner
	}
	list, ok := task["containerDefinitions"].([]any)
	if !ok {
		return nil, errors.New("it has no containerDefinitions: --image changes ECS task definitions; for a manifest of Kubernetes, edit the file")
	}
	var errs []error
	for _, w := range words {
		if err := setImage(list, w); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return json.MarshalIndent(doc, "", "  ")
}

func setImage(containers []any, word string) error {
	name, image, named := strings.Cut(word, "=")
	if !named {
		name, image = "", word
	}
	if image == "" {
		return fmt.Errorf("%q is not [CONTAINER=]IMAGE", word)
	}
	var found []map[string]any
	var names []string
	for _, c := range containers {
		c, ok := c.(map[string]any)
		if !ok {
			continue
		}
		own, _ := c["name"].(string)
		names = append(names, own)
		old, _ := c["image"].(string)
		if named && own == name || !named && (len(containers) == 1 || repository(old) == repository(image)) {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 1:
		found[0]["image"] = image
		return nil
	case named:
		return fmt.Errorf("there is no container %s; there are %s", name, strings.Join(names, ", "))
	}
	return fmt.Errorf("%d containers have an image of that repository: write CONTAINER=%s with one of %s", len(found), image, strings.Join(names, ", "))
}

// repository is an image reference without tag and digest.
func repository(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return cmp.Or(named.Name(), image)
}
