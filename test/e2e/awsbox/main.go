// Command awsbox is what ECS tasks hold: software that others wrote for ECS and
// that knows nothing of podtask, unchanged, with a main that prints what it found.
// It is a module of its own, so that its needs do not become podtask's.
//
//	awsbox credentials   what the default chain of the AWS SDK for Go finds
//	awsbox detect        what the OpenTelemetry detector for ECS finds
//	awsbox metadata      what a metadata client finds, versions 3 and 4, as JSON
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	ecsmetadata "github.com/brunoscheufler/aws-ecs-metadata-go"
	"go.opentelemetry.io/contrib/detectors/aws/ecs"
)

// limit bounds the whole run: all answers come from the same machine.
const limit = time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	verbs := map[string]func(context.Context) error{"credentials": credentials, "detect": detect, "metadata": metadata}
	if len(os.Args) != 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: awsbox credentials|detect|metadata")
		os.Exit(2)
	}
	if err := verbs[os.Args[1]](ctx); err != nil {
		fmt.Fprintln(os.Stderr, "awsbox:", err)
		os.Exit(1)
	}
}

func credentials(ctx context.Context) error {
	c, err := config.LoadDefaultConfig(ctx, config.WithRegion("eu-central-1"))
	if err != nil {
		return err
	}
	found, err := c.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func detect(ctx context.Context) error {
	found, err := ecs.NewResourceDetector().Detect(ctx)
	if err != nil {
		return err
	}
	for _, a := range found.Attributes() {
		fmt.Printf("%s=%s\n", a.Key, a.Value.Emit())
	}
	return nil
}

func metadata(ctx context.Context) error {
	task, err := ecsmetadata.GetTaskV4(ctx, http.DefaultClient)
	if err != nil {
		return err
	}
	container, err := ecsmetadata.GetContainerV4(ctx, http.DefaultClient)
	if err != nil {
		return err
	}
	old, err := ecsmetadata.GetTaskV3(ctx, http.DefaultClient)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"task": task, "container": container, "v3": old})
}
