package fleetcli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
)

var roles = []string{string(fleetapi.Viewer), string(fleetapi.Operator), string(fleetapi.Admin)}

// operatorSpecs are the commands for operator tokens.
var operatorSpecs = []fleetSpec{{use: "operators", short: "Manage the operators of the controller: tokens with roles",
	sub: []fleetSpec{
		{use: "list", short: "List the tokens, without their text",
			example: "  edgespan operators list",
			args:    term.ExactArgs(0, ""), forms: tableForms,
			run: listOperators},
		{
			use: "add NAME --role ROLE", short: "Create a token and print its text once",
			args: term.ExactArgs(1, "one NAME"), forms: tableForms,
			example: "  edgespan operators add alice --role operator > alice.token",
			run:     addOperator,
			flags: func(cmd *cobra.Command, c *fleetCall) {
				cmd.Flags().StringVar(&c.role, "role", "", "role of the token: "+term.Joined(roles)+"; required")
				cmd.Flags().DurationVar(&c.life, "life", 0, "validity of the token, such as 720h (default: unlimited)")
				// The only possible error is an undefined flag, and it is defined above.
				_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
			},
		},
		{
			use: "remove NAME", short: "Revoke a token",
			example: "  edgespan operators remove anna",
			args:    term.ExactArgs(1, "one NAME"),
			run: func(c *fleetCall) error {
				if err := c.client.RemoveOperator(c.ctx, c.args[0]); err != nil {
					return err
				}
				c.a.Printf("operator %s: removed", term.Printable(c.args[0]))
				return nil
			},
		},
	}}}

func listOperators(c *fleetCall) error {
	all, err := c.client.Operators(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(all), Empty: "no operators"}
	t := &term.Table{Head: []string{"NAME", "ROLE", "EXPIRES"}, Wide: c.output == "wide"}
	for _, o := range all {
		s.Names = append(s.Names, o.Name)
		t.Add(o.Name, string(o.Role), term.FormatTime(o.Expires))
	}
	s.Table = func(bool) *term.Table { return t }
	return c.a.Show(s, c.output)
}

func addOperator(c *fleetCall) error {
	if !slices.Contains(roles, c.role) {
		return term.NotOneOf("--role", c.role, roles)
	}
	o := fleetapi.OperatorToken{Name: c.args[0], Role: fleetapi.Role(c.role)}
	switch {
	case c.life < 0:
		return term.Invalid("--life", c.life, "more than 0s")
	case c.life > 0:
		end := time.Now().Add(c.life).UTC().Truncate(time.Second)
		o.Expires = &end
	}
	made, err := c.client.AddOperator(c.ctx, o)
	if err != nil {
		return err
	}
	if c.output == "json" || c.output == "yaml" {
		return c.a.Show(term.Shown{Data: made}, c.output)
	}
	// Only the token goes to stdout, so that it can be redirected to a file.
	if _, err := fmt.Fprintln(c.a.Out, term.Printable(strings.TrimSpace(made.Token))); err != nil {
		return err
	}
	c.a.Printf("operator %s: %s; the token is shown only once", term.Printable(made.Name),
		term.Printable(string(made.Role)))
	return nil
}
