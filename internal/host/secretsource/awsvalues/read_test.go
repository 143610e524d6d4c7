//go:build aws

package awsvalues

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/transient"
)

// amazon is a server that answers as AWS does, and notes what it is asked.
func amazon(t *testing.T, asked *[]string) Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("X-Amz-Target"), body))
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=AKIDTEST/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		switch target := r.Header.Get("X-Amz-Target"); {
		case strings.Contains(string(body), "/missing"):
			fmt.Fprint(w, `{"Parameters":[],"InvalidParameters":["/missing"]}`)
		case strings.Contains(string(body), "missing"):
			w.Header().Set("X-Amzn-ErrorType", "ParameterNotFound")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"ParameterNotFound","message":"no such thing"}`)
		case strings.HasSuffix(target, ".GetParameters") && strings.Contains(string(body), "singular"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"AccessDeniedException","message":"no policy allows ssm:GetParameters"}`)
		case strings.HasSuffix(target, ".GetParameters"):
			fmt.Fprint(w, `{"Parameters":[{"Name":"n","Value":"hunter2"}],"InvalidParameters":[]}`)
		case strings.HasSuffix(target, ".GetParameter"):
			fmt.Fprint(w, `{"Parameter":{"Name":"n","Value":"hunter2"}}`)
		case strings.HasSuffix(target, ".GetSecretValue"):
			fmt.Fprint(w, `{"SecretString":"{\"password\":\"hunter2\"}"}`)
		default:
			fmt.Fprint(w, "A=1\n")
		}
	}))
	t.Cleanup(server.Close)
	return Config{Endpoint: server.URL, Region: "eu-west-1", Credentials: func(context.Context) (Credentials, error) {
		return Credentials{AccessKeyID: "AKIDTEST", SecretAccessKey: "secret"}, nil
	}}
}

func TestRead(t *testing.T) {
	t.Parallel()
	var asked []string
	c := amazon(t, &asked)
	for _, tt := range []struct {
		wanted      Wanted
		value, says string
	}{
		{Wanted{Name: "/shop/token"}, "hunter2", `POST / AmazonSSM.GetParameters {"Names":["/shop/token"],"WithDecryption":true}`},
		{Wanted{Name: "arn:aws:secretsmanager:eu-west-1:1:secret:db", Stage: "AWSPREVIOUS"}, `{"password":"hunter2"}`, `"VersionStage":"AWSPREVIOUS"`},
		{Wanted{Name: "arn:aws:secretsmanager:eu-west-1:1:secret:db", Version: "v1"}, `{"password":"hunter2"}`, `"VersionId":"v1"`},
		{Wanted{Name: "arn:aws:s3:::shop/env/web.env"}, "A=1\n", "GET /shop/env/web.env"},
	} {
		asked = nil
		value, err := c.Read(t.Context(), tt.wanted)
		if err != nil || string(value) != tt.value || len(asked) != 1 || !strings.Contains(asked[0], tt.says) {
			t.Errorf("%+v: %q, %v, asked %q", tt.wanted, value, err, asked)
		}
	}
	// A policy of before has the other action.
	if value, err := c.Read(t.Context(), Wanted{Name: "/singular"}); err != nil || string(value) != "hunter2" {
		t.Errorf("with ssm:GetParameter alone: %q, %v", value, err)
	}
	_, err := c.Read(t.Context(), Wanted{Name: "/missing"})
	var e *Error
	if !errors.As(err, &e) || transient.Is(err) || !strings.Contains(e.Message, "ParameterNotFound") {
		t.Errorf("of a parameter that is missing: %v", err)
	}
}

func TestReadWithoutCredentials(t *testing.T) {
	t.Parallel()
	var asked []string
	c := amazon(t, &asked)
	c.Credentials = func(context.Context) (Credentials, error) {
		return Credentials{}, &Error{Message: "there are no credentials"}
	}
	if _, err := c.Read(t.Context(), Wanted{Name: "/shop/token"}); err == nil || !strings.Contains(err.Error(), "there are no credentials") || len(asked) > 0 {
		t.Errorf("%v, asked %q", err, asked)
	}
}
