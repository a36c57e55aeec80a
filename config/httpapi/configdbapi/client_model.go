package configdbapi

import (
	"context"
	"net/http"
	"net/url"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// Components returns all components.
func (c *Client) Components(ctx context.Context) ([]model.Component, error) {
	return rest.Get[[]model.Component](ctx, c.Client, toComponents, nil)
}

// Component returns a component.
func (c *Client) Component(ctx context.Context, id int64) (model.Component, error) {
	return rest.Get[model.Component](ctx, c.Client, to(toComponents, id), nil)
}

// CreateComponent creates a component.
func (c *Client) CreateComponent(ctx context.Context, n NewComponent, o WriteOptions) (model.Component, error) {
	return create[model.Component](ctx, c, toComponents, n, o)
}

// create creates an object and returns it. A dry run returns the zero value.
func create[T any](ctx context.Context, c *Client, path string, body any, o WriteOptions) (none T, err error) {
	r, err := writeRequest(http.MethodPost, path, body, o)
	if err != nil {
		return none, err
	}
	if o.DryRun {
		_, _, err = c.Ask(ctx, r)
		return none, err
	}
	return rest.Ask[T](ctx, c.Client, r)
}

// EditComponent changes a component.
func (c *Client) EditComponent(ctx context.Context, id int64, e ComponentEdit, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodPatch, to(toComponents, id), e, o)
	return err
}

// DeleteComponent deletes a component with its definitions.
func (c *Client) DeleteComponent(ctx context.Context, id int64, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodDelete, to(toComponents, id), nil, o)
	return err
}

// Definitions returns all definitions, or those of one component; with *component nil, those of none.
func (c *Client) Definitions(ctx context.Context, component **int64) ([]model.Definition, error) {
	q := url.Values{}
	if component != nil {
		q.Set("component_id", "")
		if *component != nil {
			q.Set("component_id", decimal(**component))
		}
	}
	return rest.Get[[]model.Definition](ctx, c.Client, toDefinitions, q)
}

// Definition returns a definition.
func (c *Client) Definition(ctx context.Context, id int64) (model.Definition, error) {
	return rest.Get[model.Definition](ctx, c.Client, to(toDefinitions, id), nil)
}

// CreateDefinition creates a definition.
func (c *Client) CreateDefinition(ctx context.Context, n NewDefinition, o WriteOptions) (model.Definition, error) {
	return create[model.Definition](ctx, c, toDefinitions, n, o)
}

// EditDefinition changes a definition.
func (c *Client) EditDefinition(ctx context.Context, id int64, e DefinitionEdit, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodPatch, to(toDefinitions, id), e, o)
	return err
}

// DeleteDefinition deletes a definition with its records.
func (c *Client) DeleteDefinition(ctx context.Context, id int64, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodDelete, to(toDefinitions, id), nil, o)
	return err
}

// Secrets returns the declared secret keys of a definition.
func (c *Client) Secrets(ctx context.Context, id int64) ([]string, error) {
	out, err := rest.Get[Secrets](ctx, c.Client, to(toDefinitions, id, "secrets"), nil)
	return out.Secrets, err
}

// DeclareSecrets replaces the declared secret keys of a definition.
func (c *Client) DeclareSecrets(ctx context.Context, id int64, keys []string, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodPut, to(toDefinitions, id, "secrets"), Secrets{list(keys)}, o)
	return err
}

// Environments returns all environments.
func (c *Client) Environments(ctx context.Context) ([]model.Environment, error) {
	return rest.Get[[]model.Environment](ctx, c.Client, toEnvironments, nil)
}

// Environment returns an environment.
func (c *Client) Environment(ctx context.Context, id int64) (model.Environment, error) {
	return rest.Get[model.Environment](ctx, c.Client, to(toEnvironments, id), nil)
}

// CreateEnvironment creates an environment.
func (c *Client) CreateEnvironment(ctx context.Context, n NewEnvironment, o WriteOptions) (model.Environment, error) {
	n.Components, n.Levels = list(n.Components), list(n.Levels)
	return create[model.Environment](ctx, c, toEnvironments, n, o)
}

// EditEnvironment changes an environment.
func (c *Client) EditEnvironment(ctx context.Context, id int64, e EnvironmentEdit, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodPatch, to(toEnvironments, id), e, o)
	return err
}

// DeleteEnvironment deletes an environment with its records.
func (c *Client) DeleteEnvironment(ctx context.Context, id int64, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodDelete, to(toEnvironments, id), nil, o)
	return err
}

// Levels returns the levels of an environment, from the broadest to the narrowest.
func (c *Client) Levels(ctx context.Context, environment int64) ([]model.Level, error) {
	return rest.Get[[]model.Level](ctx, c.Client, to(toEnvironments, environment, "hierarchy_levels"), nil)
}

// Level returns a level, by id or name.
func (c *Client) Level(ctx context.Context, environment int64, level string) (model.Level, error) {
	return rest.Get[model.Level](ctx, c.Client, to(toEnvironments, environment, "hierarchy_levels", level), nil)
}

// RenameLevel renames a level.
func (c *Client) RenameLevel(ctx context.Context, environment int64, level, name string, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodPatch, to(toEnvironments, environment, "hierarchy_levels", level), LevelEdit{name},
		o)
	return err
}

// Nodes returns the nodes registered in an environment.
func (c *Client) Nodes(ctx context.Context, environment int64) ([]model.Node, error) {
	return rest.Get[[]model.Node](ctx, c.Client, to(toEnvironments, environment, "nodes"), nil)
}

// Node returns a node, by any of its names.
func (c *Client) Node(ctx context.Context, environment int64, name string) (model.Node, error) {
	return rest.Get[model.Node](ctx, c.Client, to(toEnvironments, environment, "nodes", name), nil)
}

// PutNode registers a node. Nil levels keep the node's current ones.
func (c *Client) PutNode(ctx context.Context, environment int64, n model.Node, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodPut, to(toEnvironments, environment, "nodes", n.ID),
		NodeNames{n.FQDN, n.Certname, n.Levels}, o)
	return err
}

// DeleteNode removes a node from an environment.
func (c *Client) DeleteNode(ctx context.Context, environment int64, name string, o WriteOptions) error {
	_, err := c.write(ctx, http.MethodDelete, to(toEnvironments, environment, "nodes", name), nil, o)
	return err
}
