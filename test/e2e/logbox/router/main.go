// Router is a log router: OpenTelemetry's receiver of the forward protocol. It prints each record
// as a line of JSON. It is a program of its own, because Docker's driver and the receiver cannot be
// in one: both register a type of the same library.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/fluentforwardreceiver"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: router HOST:PORT|unix://PATH")
		os.Exit(2)
	}
	if err := serve(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve prints "ready" once it listens, and serves until the program is killed.
func serve(ctx context.Context, address string) error {
	out := json.NewEncoder(os.Stdout)
	sink, err := consumer.NewLogs(func(_ context.Context, logs plog.Logs) error {
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, r := range scope.LogRecords().All() {
					members := map[string][]byte{"log": []byte(r.Body().AsString())} // bytes that are not UTF-8 stay as they are
					for name, value := range r.Attributes().All() {
						members[name] = []byte(value.AsString())
					}
					if err := out.Encode(members); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	factory := fluentforwardreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*fluentforwardreceiver.Config)
	config.ListenAddress = address
	r, err := factory.CreateLogs(ctx, receivertest.NewNopSettings(factory.Type()), config, sink)
	if err != nil {
		return err
	}
	if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}
