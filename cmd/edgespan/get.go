package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"edgespan/config/httpapi"
)

// completionTimeout bounds how long the TAB key may hang.
const completionTimeout = time.Second

var outputs = []string{"table", "wide", "json", "yaml", "name"}

func newGet(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "get " + strings.Join(httpapi.Kinds(), "|") + " [ID]",
		Short: "Show networks, apps, adapters, ports, parameters, actors, or where the config came from",
		Long: `get shows what the daemon wants and what became of it. -o json prints an array of
{id, kind, spec, status}, and with an ID one such object. The ID of an adapter is
<app>/<index>, that of the config is node.`,
		Args: rangeArgs(1, 2, strings.Join(httpapi.Kinds(), "|")+" [ID]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(httpapi.Kinds(), args[0]) {
				return usagef("get: type is %q: %s are allowed", args[0], strings.Join(httpapi.Kinds(), " "))
			}
			if !slices.Contains(outputs, output) {
				return usagef("-o: is %q: %s are allowed", output, strings.Join(outputs, " "))
			}
			if len(args) == 2 {
				return a.getOne(cmd.Context(), args[0], args[1], output)
			}
			return a.getAll(cmd.Context(), args[0], output)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return httpapi.Kinds(), cobra.ShellCompDirectiveNoFileComp
			case 1:
				return a.liveIDs(cmd.Context(), args[0], ""), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "form: "+strings.Join(outputs, ", "))
	return cmd
}

// liveIDs are the ids that the daemon knows now, for completion: no daemon, no ids.
func (a *app) liveIDs(ctx context.Context, kind, prefix string) []string {
	if ctx == nil {
		ctx = context.Background() // cobra's completion runs without one
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	c := a.client()
	defer c.Close()
	items, err := c.List(ctx, kind)
	var incomplete *httpapi.Incomplete
	if err != nil && !errors.As(err, &incomplete) {
		return nil
	}
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = prefix + it.ID
	}
	return ids
}

func (a *app) getOne(ctx context.Context, kind, id, output string) error {
	if id == "" {
		return usagef("get: id is empty: the id of one %s is allowed", kind)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c := a.client()
	defer c.Close()
	it, err := c.Get(ctx, kind, id)
	if err != nil {
		return err
	}
	switch output {
	case "json":
		return a.printJSON(it)
	case "yaml":
		return a.printYAML(it)
	}
	return a.printItems(kind, []httpapi.Resource{it}, output)
}

func (a *app) getAll(ctx context.Context, kind, output string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c := a.client()
	defer c.Close()
	items, err := c.List(ctx, kind)
	var incomplete *httpapi.Incomplete
	if err != nil && !errors.As(err, &incomplete) {
		return err
	}
	if items == nil {
		items = []httpapi.Resource{}
	}
	switch output {
	case "json":
		return errors.Join(a.printJSON(items), err)
	case "yaml":
		return errors.Join(a.printYAML(items), err)
	}
	if len(items) == 0 && err == nil && output != "name" {
		a.say("no %s", kind)
		return nil
	}
	return errors.Join(a.printItems(kind, items, output), err)
}

func (a *app) printItems(kind string, items []httpapi.Resource, output string) error {
	if output == "name" {
		for _, it := range items {
			if _, err := fmt.Fprintf(a.Out, "%s/%s\n", kind, printable(it.ID)); err != nil {
				return err
			}
		}
		return nil
	}
	t := resourceTable(kind, items, output == "wide")
	return t.write(a.Out, a.Color)
}

// printYAML goes through JSON, so that both forms have the same names and order.
func (a *app) printYAML(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err = a.Out.Write(out)
	return err
}
