// Package puppet runs Debian's real Hiera and Puppet against a real controller: the examples of
// deploy/puppet, the use case of the seed, and random hierarchies that must give what
// Puppet makes of the same data in local YAML. It never has code that others use.
package puppet
