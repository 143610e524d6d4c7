package logdriver_test

import (
	"fmt"

	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// All problems of the options are returned at once.
func ExampleParseGELF() {
	options, problems := logdriver.ParseGELF(map[string]string{"gelf-address": "udp://logs.example.com:12201"})
	fmt.Println(options.Address.Network, options.Compression, len(problems))

	_, problems = logdriver.ParseGELF(map[string]string{"gelf-address": "udp://logs.example.com:12201", "gelf-compression-level": "12", "gelf-compression-type": "zip"})
	for _, p := range problems {
		fmt.Println(p.Option)
	}
	// Output:
	// udp gzip 0
	// gelf-compression-type
	// gelf-compression-level
}
