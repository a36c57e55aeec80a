// Package puppet runs Debian's Hiera and Puppet against a real controller: the examples of deploy/puppet, the use case
// of the seed, and random hierarchies that must give the same result as the same data in Puppet's local YAML. It never
// has code that other packages use.
package puppet
