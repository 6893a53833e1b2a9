// Judges objects by kstatus, the library by which Flux and Helm decide whether to go on waiting.
//
// Reads one object a line, as JSON, and writes its status, one a line.
package main

import (
	"bufio"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

const longestLine = 1 << 20

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	answers := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		found, err := judge(lines.Bytes())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintln(answers, found)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := answers.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge(line []byte) (status.Status, error) {
	var object unstructured.Unstructured
	// Its own reader keeps integers apart from floats, and kstatus asks for integers.
	if err := object.UnmarshalJSON(line); err != nil {
		return "", err
	}
	found, err := status.Compute(&object)
	if err != nil {
		return "", err
	}
	return found.Status, nil
}
