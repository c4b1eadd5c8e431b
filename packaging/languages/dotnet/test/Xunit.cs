// The part of xUnit that the tests use, with a program that runs them: no package has to be fetched for them.
using System;
using System.Collections;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Threading.Tasks;

namespace Xunit
{
    [AttributeUsage(AttributeTargets.Method)]
    public sealed class FactAttribute : Attribute
    {
    }

    public interface IClassFixture<TFixture>
        where TFixture : class
    {
    }

    public interface IAsyncLifetime
    {
        Task InitializeAsync();

        Task DisposeAsync();
    }

    public static class Assert
    {
        public static void Equal<T>(T expected, T actual)
        {
            if (!Same(expected, actual))
            {
                throw new AssertException($"expected {Shown(expected)}, found {Shown(actual)}");
            }
        }

        public static void True(bool condition) => Equal(true, condition);

        public static void Null(object? value) => Equal(null, value);

        public static void Empty(IEnumerable values) => Equal(Array.Empty<object>(), values.Cast<object>());

        public static void Contains(string expected, string? actual) => Holds(actual?.Contains(expected), expected, actual);

        public static void StartsWith(string expected, string? actual) =>
            Holds(actual?.StartsWith(expected, StringComparison.Ordinal), expected, actual);

        public static async Task<T> ThrowsAsync<T>(Func<Task> code)
            where T : Exception
        {
            try
            {
                await code();
            }
            catch (Exception error) when (error.GetType() == typeof(T))
            {
                return (T)error;
            }

            throw new AssertException($"no {typeof(T).Name} was thrown");
        }

        private static void Holds(bool? said, string expected, string? actual)
        {
            if (said != true)
            {
                throw new AssertException($"no {Shown(expected)} in {Shown(actual)}");
            }
        }

        private static bool Same(object? one, object? other)
        {
            return one is IEnumerable && other is IEnumerable && !(one is string)
                ? Items(one).SequenceEqual(Items(other))
                : Equals(one, other);
        }

        private static IEnumerable<object> Items(object of) => ((IEnumerable)of).Cast<object>();

        private static string Shown(object? value) =>
            value is IEnumerable && !(value is string) ? $"[{string.Join(", ", Items(value))}]" : value?.ToString() ?? "null";
    }

    public sealed class AssertException : Exception
    {
        public AssertException(string message)
            : base(message)
        {
        }
    }

    internal static class Program
    {
        private static async Task<int> Main()
        {
            int passed = 0, failed = 0;
            var classes = typeof(Program).Assembly.GetTypes().Where(each => Facts(each).Any());
            foreach (var tests in classes.OrderBy(each => each.Name, StringComparer.Ordinal))
            {
                var fixtures = tests.GetInterfaces()
                    .Where(each => each.IsGenericType && each.GetGenericTypeDefinition() == typeof(IClassFixture<>))
                    .ToDictionary(each => each.GenericTypeArguments[0], each => Made(each.GenericTypeArguments[0]));
                foreach (var fixture in fixtures.Values)
                {
                    await BeginAsync(fixture);
                }

                foreach (var fact in Facts(tests))
                {
                    var error = await RunAsync(tests, fact, fixtures);
                    Console.WriteLine($"{tests.Name}.{fact.Name} {(error == null ? "passed" : $"failed: {error}")}");
                    _ = error == null ? passed++ : failed++;
                }

                foreach (var fixture in fixtures.Values)
                {
                    await EndAsync(fixture);
                }
            }

            Console.WriteLine($"{passed} passed, {failed} failed");
            return failed == 0 && passed > 0 ? 0 : 1;
        }

        private static IEnumerable<MethodInfo> Facts(Type of) =>
            of.GetMethods().Where(each => each.GetCustomAttribute<FactAttribute>() != null);

        private static async Task<Exception?> RunAsync(Type tests, MethodInfo fact, Dictionary<Type, object> fixtures)
        {
            try
            {
                var wanted = tests.GetConstructors().Single().GetParameters();
                var instance = Made(tests, wanted.Select(each => fixtures[each.ParameterType]).ToArray());
                await BeginAsync(instance);
                try
                {
                    await ((Task?)fact.Invoke(instance, null) ?? Task.CompletedTask);
                }
                finally
                {
                    await EndAsync(instance);
                }

                return null;
            }
            catch (Exception error)
            {
                return error;
            }
        }

        private static object Made(Type of, params object[] given) => Activator.CreateInstance(of, given)!;

        private static Task BeginAsync(object of) => (of as IAsyncLifetime)?.InitializeAsync() ?? Task.CompletedTask;

        private static Task EndAsync(object of) => (of as IAsyncLifetime)?.DisposeAsync() ?? Task.CompletedTask;
    }
}
