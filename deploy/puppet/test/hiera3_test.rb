# frozen_string_literal: true

require 'minitest/autorun'
require 'hiera'
require 'hiera/scope'
require 'tmpdir'
require_relative 'stub'

# The backend under Hiera 3 itself.
class Hiera3Test < Minitest::Test
  NODE = '/environments/1/nodes/node-1.domain.tld/resources/'

  def setup
    @dir = Dir.mktmpdir
    @docs = {}
    @stub = Stub.new(&controller(@docs))
  end

  def teardown
    @stub.close
    FileUtils.rm_rf(@dir)
  end

  def put(resource, text)
    @docs["#{NODE}#{resource}/values"] = text
  end

  def hiera(hierarchy, more = {})
    Hiera::Backend.clear!
    Hiera.new(config: {
      backends: ['configdb'], logger: 'noop', hierarchy: hierarchy, configdb: { uri: @stub.url('/environments/1/nodes/%{::fqdn}') }
    }.merge(more))
  end

  SCOPE = { 'fqdn' => 'node-1.domain.tld', '::fqdn' => 'node-1.domain.tld', '::role' => 'compute' }.freeze

  def lookup(key, kind = :priority, scope = SCOPE)
    @hiera.lookup(key, 'nothing', scope, nil, kind)
  end

  # The original's naming, and the seed's: a source in a folder is a key of the folder's resource, or a resource.
  def test_both_ways_to_name_a_source
    put('override/node', '{"node-1.domain.tld":{"k":"lcm","a":1},"x":"no source has it"}')
    put('override/plugins', '{"k":"whole","b":2}')
    put('override', '{"plugins":{"k":"below","c":3},"list":[1]}')
    @hiera = hiera(['override/node/%{::fqdn}', 'override/plugins', 'override/list', 'nowhere', 'nowhere/else'])
    assert_equal ['lcm', 1, 2, 3, 'nothing'], %w[k a b c x].map { |key| lookup(key) }
    @hiera = hiera(['override/plugins'])
    assert_equal 'whole', lookup('k')
  end

  def test_first_array_and_hash
    put('a', '{"k":"1","n":null,"l":["x","y"],"h":{"a":{"x":1}},"i":"%{::role}"}')
    put('b', '{"k":"2","n":2,"l":["y","z"],"h":{"a":{"y":2},"b":3}}')
    @hiera = hiera(%w[a b])
    assert_equal ['1', nil, 'compute', { 'x' => 1 }], ['k', 'n', 'i', 'h.a'].map { |key| lookup(key) }
    assert_equal %w[1 2], lookup('k', :array)
    assert_equal %w[x y z], lookup('l', :array)
    assert_equal({ 'a' => { 'x' => 1 }, 'b' => 3 }, lookup('h', :hash))
    @hiera = hiera(%w[a b], merge_behavior: :deeper)
    assert_equal({ 'a' => { 'x' => 1, 'y' => 2 }, 'b' => 3 }, lookup('h', :hash))
    assert_match(/expected Hash and got String/, assert_raises(Exception) { lookup('k', :hash) }.message)
    assert_match(/expected Array and got Hash/, assert_raises(Exception) { lookup('h', :array) }.message)
    assert_equal 'z', @hiera.lookup('k', 'nothing', SCOPE.merge('::role' => 'x'), 'c', :priority).sub('1', 'z')
  end

  # What a node says of itself can't lead to another node's data.
  def test_a_variable_is_one_part_of_the_address
    put('a', '{"k":1}')
    @hiera = hiera(['a'])
    assert_equal 'nothing', lookup('k', :priority, '::fqdn' => 'x/../node-1.domain.tld')
    assert_equal '/environments/1/nodes/x%2F..%2Fnode-1.domain.tld/resources/a/values?effective', @stub.requests.pop.path
    ['', '..'].each do |name|
      assert_match(/has an empty part, or one of dots/, assert_raises(PuppetX::ConfigDB::Error) { lookup('k', :priority, '::fqdn' => name) }.message)
    end
  end

  Compiler = Struct.new(:name)
  TopScope = Struct.new(:compiler) do
    def lookupvar(name)
      SCOPE[name]
    end

    def include?(name)
      SCOPE.include?(name)
    end
    alias_method :exist?, :include?
  end

  # Within a catalog a document is asked for once, and stays as it was; the next one sees what changed.
  def test_one_request_for_each_document_and_catalog
    put('a', '{"k":1}')
    @hiera = hiera(%w[a b])
    first, second = [1, 2].map { |i| Hiera::Scope.new(TopScope.new(Compiler.new(i))) }
    assert_equal [1, 'nothing'], [lookup('k', :priority, first), lookup('z', :priority, first)]
    assert_equal 2, @stub.count
    put('a', '{"k":2}')
    assert_equal 1, lookup('k', :priority, first)
    assert_equal 2, @stub.count
    assert_equal 2, lookup('k', :priority, second)
    assert_equal [2, 2], [lookup('k'), lookup('k')] # outside of a catalog, each lookup asks
    assert_equal 5, @stub.count
  end

  def test_faults
    { {} => 'uri: is missing', { uri: 'http://h', resources: ['a'] } => 'resources: is unknown' }.each do |given, words|
      @hiera = hiera(['a'], configdb: given)
      assert_includes assert_raises(PuppetX::ConfigDB::Error) { lookup('k') }.message, words
    end
    @hiera = hiera(['a'], configdb: nil)
    assert_includes assert_raises(PuppetX::ConfigDB::Error) { lookup('k') }.message, 'no :configdb:'
    @hiera = hiera(['a'])
    @stub.close
    assert_includes assert_raises(PuppetX::ConfigDB::Error) { lookup('k') }.message, 'Connection refused'
  end
end
