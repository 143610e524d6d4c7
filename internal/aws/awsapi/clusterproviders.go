package awsapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/aws/awsapi/resource"
	"github.com/podtask/podtask/internal/engine/facts/arn"
)

// defaultStrategy is the member of a cluster that names the capacity providers of tasks that name none.
const defaultStrategy = "defaultCapacityProviderStrategy"

// strategyItem is a capacity provider in a strategy.
type strategyItem struct {
	Provider string `json:"capacityProvider"`
	Weight   int    `json:"weight"`
	Base     int    `json:"base"`
}

// checkProviders checks the capacity providers of a cluster and its default strategy as ECS does.
func checkProviders(providers, strategy json.RawMessage) error {
	var names []string
	if err := json.Unmarshal(providers, &names); err != nil {
		return protocol.Failf(protocol.CodeSyntax, "capacityProviders: %v", err)
	}
	for _, name := range names {
		if len(name) > 255 || !namePattern.MatchString(name) {
			return protocol.Invalidf("capacityProviders: %q is not a name of 1 to 255 letters, digits, dashes and underscores", protocol.Shortened(name))
		}
	}
	var items []strategyItem
	if err := json.Unmarshal(strategy, &items); err != nil {
		return protocol.Failf(protocol.CodeSyntax, "%s: %v", defaultStrategy, err)
	}
	bases := 0
	for _, i := range items {
		switch {
		case !slices.Contains(names, i.Provider):
			return protocol.Invalidf("%s: the capacity provider %q is not in capacityProviders", defaultStrategy, protocol.Shortened(i.Provider))
		case i.Weight < 0 || i.Weight > 1000:
			return protocol.Invalidf("%s: the weight of %s is not 0 to 1000", defaultStrategy, i.Provider)
		case i.Base < 0 || i.Base > 100_000:
			return protocol.Invalidf("%s: the base of %s is not 0 to 100000", defaultStrategy, i.Provider)
		case i.Base > 0:
			bases++
		}
	}
	if bases > 1 {
		return protocol.Invalidf("%s: only one capacity provider can have a base", defaultStrategy)
	}
	return nil
}

// providers are the operations on capacity providers, which are names here.
type providers struct{ clusters *clusters }

func (p providers) operations() []protocol.Operation {
	return []protocol.Operation{
		protocol.Define("DescribeCapacityProviders", protocol.Honor("capacityProviders", "cluster", "include=TAGS", "maxResults", "nextToken"), p.describe),
	}
}

// providerDoc is a capacity provider in answers.
type providerDoc struct {
	ARN    string         `json:"capacityProviderArn"`
	Name   string         `json:"name"`
	Status string         `json:"status"`
	Type   string         `json:"type,omitempty"`
	Tags   []resource.Tag `json:"tags"`
}

type describeProvidersIn struct {
	protocol.Paging
	Providers []string `json:"capacityProviders"`
	Cluster   string   `json:"cluster"`
	Include   []string `json:"include"`
}

// fargateProviders are the capacity providers that exist in every account without being created.
var fargateProviders = []string{"FARGATE", "FARGATE_SPOT"}

// describe describes those that every account has and those that clusters name.
func (p providers) describe(_ context.Context, in describeProvidersIn, _ protocol.Fields) (any, error) {
	known, err := p.known(in.Cluster)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Providers []providerDoc      `json:"capacityProviders"`
		Failures  []protocol.Problem `json:"failures"`
		Next      string             `json:"nextToken,omitempty"`
	}{[]providerDoc{}, []protocol.Problem{}, ""}
	names := known
	if len(in.Providers) > 0 {
		names = nil
	}
	for _, text := range in.Providers {
		name, _, err := cut("capacityProviders", "capacity-provider", text)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(known, name):
			names = append(names, name)
		default:
			answer.Failures = append(answer.Failures, protocol.Problem{ARN: arn.Make("capacity-provider", protocol.Shortened(name)), Reason: protocol.MissingReason})
		}
	}
	slices.Sort(names)
	some, next, err := protocol.Page("DescribeCapacityProviders", in.Paging, protocol.MaxPage, slices.Compact(names), strings.Compare)
	if err != nil {
		return nil, err
	}
	for _, name := range some {
		doc := providerDoc{ARN: arn.Make("capacity-provider", name), Name: name, Status: "ACTIVE", Tags: []resource.Tag{}}
		if slices.Contains(fargateProviders, name) {
			doc.Type = name
		}
		answer.Providers = append(answer.Providers, doc)
	}
	answer.Next = next
	return answer, nil
}

// known are the names of the capacity providers of a cluster; empty: of all clusters.
func (p providers) known(cluster string) (all []string, err error) {
	of := []string{cluster}
	if cluster == "" {
		all = slices.Clone(fargateProviders)
		of, err = p.clusters.names()
	}
	for _, text := range of {
		name, err := p.clusters.active(text)
		if err != nil {
			return nil, err
		}
		r, _, err := p.clusters.find(name)
		if err != nil {
			return nil, err
		}
		var names []string
		_ = json.Unmarshal(r.Kept["capacityProviders"], &names) // it was checked
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), err
}
