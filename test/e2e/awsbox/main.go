// Command awsbox is what ECS tasks hold: software that others wrote for ECS and
// that knows nothing of podtask, unchanged, with a main that prints what it found.
// It is a module of its own, so that its needs do not become podtask's.
//
//	awsbox call          whom the AWS SDK for Go asks who it is, and how it signs, without a region in the program
//	awsbox credentials   what the default chain of the AWS SDK for Go finds
//	awsbox detect        what the OpenTelemetry detector for ECS finds
//	awsbox metadata      what a metadata client finds, versions 3 and 4, as JSON
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ecsmetadata "github.com/brunoscheufler/aws-ecs-metadata-go"
	"go.opentelemetry.io/contrib/detectors/aws/ecs"
)

// limit bounds the whole run: all answers come from the same machine.
const limit = time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	verbs := map[string]func(context.Context) error{"call": call, "credentials": credentials, "detect": detect, "metadata": metadata}
	if len(os.Args) != 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: awsbox call|credentials|detect|metadata")
		os.Exit(2)
	}
	if err := verbs[os.Args[1]](ctx); err != nil {
		fmt.Fprintln(os.Stderr, "awsbox:", err)
		os.Exit(1)
	}
}

// call prints the request that the SDK would send to AWS, and answers it.
func call(ctx context.Context) error {
	c, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	client := sts.NewFromConfig(c, func(o *sts.Options) { o.HTTPClient = answerer{} })
	who, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return err
	}
	fmt.Println("account", *who.Account)
	return nil
}

// answerer stands for AWS.
type answerer struct{}

const identity = `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`

func (answerer) Do(r *http.Request) (*http.Response, error) {
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	scope, _, _ = strings.Cut(scope, ",")
	fmt.Println(r.Method, r.URL.Host, scope)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(identity)), Request: r}, nil
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
