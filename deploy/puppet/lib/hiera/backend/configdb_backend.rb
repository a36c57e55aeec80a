# frozen_string_literal: true

require 'erb'
require 'hiera/backend'
require_relative '../../puppet_x/configdb/net_client'

class Hiera
  module Backend
    # Hiera 3 data from ConfigDB. A source of the hierarchy is a resource: that of its whole name
    # (override/plugins), and below it, what the resource of its folder has under its last part
    # (override, key plugins), if that is an object. Tools have uploaded /etc/hiera both ways.
    #
    # Within a catalog of Puppet each resource is asked for once; without one, once in each lookup.
    class Configdb_backend
      ConfigDB = PuppetX::ConfigDB

      def initialize(transport = ConfigDB::NetClient.new)
        @documents = ConfigDB::Documents.new(transport)
        @options = options
        Hiera.debug('Hiera ConfigDB backend starting')
      end

      def lookup(key, scope, order_override, resolution_type, context)
        found = false
        answer = nil
        seen = seen_by(scope)
        Backend.datasources(scope, order_override) do |source|
          data = data_of(source, scope, seen)
          next unless data.include?(key)

          Hiera.debug("Found #{key} in #{source} of ConfigDB")
          found = true
          value = Backend.parse_answer(data[key], scope, {}, context)
          case resolution_type.is_a?(Hash) ? :hash : resolution_type
          when :array
            must_be(key, value, Array, String)
            (answer ||= []) << value
          when :hash
            must_be(key, value, Hash)
            answer = Backend.merge_answer(value, answer || {}, resolution_type)
          else
            answer = value
            break
          end
        end
        throw :no_such_key unless found
        answer
      end

      private

      def options
        given = Config[:configdb]
        raise ConfigDB::Error, 'hiera.yaml has no :configdb: with a :uri: in it' unless given.is_a?(Hash)

        ConfigDB::Options.new(given.transform_keys(&:to_s), ConfigDB::Options::HIERA3)
      end

      # The documents of the catalog that a scope is of. They end with it, and one thread compiles it.
      def seen_by(scope)
        puppet = scope.respond_to?(:real) ? scope.real : nil
        return {} unless puppet.respond_to?(:compiler)

        compiler = puppet.compiler
        compiler.instance_variable_get(:@configdb) || compiler.instance_variable_set(:@configdb, {})
      end

      # What a variable stands for is one part of the address, whatever is in it.
      def place(scope)
        @options['uri'].gsub(/%\{[^}]*\}/) { |v| ERB::Util.url_encode(Backend.parse_string(v, scope).to_s) }
      end

      def data_of(source, scope, seen)
        base = place(scope)
        whole = resource(base, source, seen)
        folder, slash, last = source.rpartition('/')
        return whole if slash.empty?

        below = resource(base, folder, seen)[last]
        below.is_a?(Hash) ? below.merge(whole) : whole
      end

      def resource(base, name, seen)
        address = "#{base}/resources/#{name.split('/').map { |part| ERB::Util.url_encode(part) }.join('/')}/values?effective"
        seen[address] ||= @documents.get(address, @options) { |warning| Hiera.warn(warning) } || {}
      end

      def must_be(key, value, *kinds)
        return if kinds.any? { |kind| value.is_a?(kind) }

        raise Exception, "Hiera type mismatch for key '#{key}': expected #{kinds[0]} and got #{value.class}"
      end
    end
  end
end
