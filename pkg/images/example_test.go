package images_test

import (
	"context"
	"fmt"

	"github.com/podtask/podtask/pkg/images"
)

// Short names are completed as Docker and ECS do.
func ExampleParseRef() {
	ref, err := images.ParseRef("nginx")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ref)
	fmt.Println(ref.Registry(), ref.Repository(), ref.Tag())
	// Output:
	// docker.io/library/nginx:latest
	// docker.io library/nginx latest
}

// A reference with a digest is resolved without a registry. For any other, Resolve asks the registry
// with the user's credentials.
func ExampleResolver_Resolve() {
	resolver := images.New(images.Options{})
	r, err := resolver.Resolve(context.Background(),
		"example.com/server@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", images.Login{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Digest)
	// Output:
	// sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
}
